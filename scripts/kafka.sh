#!/usr/bin/env bash
# Runs real Apache Kafka (KRaft, loopback only) for tests and trials.
#
#   scripts/kafka.sh fetch                 download the broker (Maven artifacts), once
#   scripts/kafka.sh start [DIR [PORT]]    start or restart the broker of DIR; prints host:port
#   scripts/kafka.sh secure [DIR]          the same with TLS, SASL and ACLs; prints DIR/secure.env
#   scripts/kafka.sh cluster DIR           start three brokers that are one cluster; prints their host:port
#   scripts/kafka.sh stop|kill [DIR]       SIGTERM or SIGKILL, and wait until it is gone
#   scripts/kafka.sh status [DIR]          print host:port if it answers, else fail
#   scripts/kafka.sh clean [DIR]           kill the broker, or all of a cluster, and remove the data
#
# DIR holds configuration, data, log and pid of one broker; default <cache>/run.
# Without PORT a new DIR gets a free port, and keeps it over restarts.
#
# A secure broker has a listener for each way to connect, on ports of its own:
# PLAINTEXT, TLS, MTLS (wants client certificates), EXPIRED (TLS, with a
# certificate that has expired), SASL and SASLTLS (PLAIN and both SCRAM), OAUTH
# and OAUTHTLS (OAUTHBEARER with unsigned tokens, which end their sessions). Users
# are admin, trainer and nobody, with the password in DIR/tls/password; admin and
# whoever comes over PLAINTEXT may do everything, the others what ACLs say.
# Certificates and keys are made in DIR/tls. All of it is for this machine only.
#
# The brokers of a cluster are in DIR/1 to DIR/3, each of which start, stop,
# kill and status take as any other. Each is a controller too. Topics, also those
# of offsets and of transactions, have three replicas, two of which must have a
# record. Besides PLAINTEXT each has a listener VIA, which it advertises at a port
# where nothing listens: there somebody may forward connections, or not. DIR/via
# has a line "advertised-port port" for each broker.
#
# Cache: $STREAMSVM_CACHE, else ${XDG_CACHE_HOME:-~/.cache}/streamsvm.
# Needs Java 17 or newer, Maven for fetch, and OpenSSL for secure. KAFKA_HEAP (default 512m) sets the heap.
set -euo pipefail

KAFKA_VERSION=4.1.1 # kafka_2.13; log4j as that release ships it
LOG4J_VERSION=2.24.3
PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

cache=${STREAMSVM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/streamsvm}
home=$cache/kafka-$KAFKA_VERSION
cmd=${1:-}
dir=$(realpath -m "${2:-$cache/run}")

die() { echo "kafka.sh: $*" >&2; exit 1; }

fetch() {
	[ -f "$home/complete" ] && return
	command -v mvn >/dev/null || die "Maven is missing (Debian: apt-get install maven)"
	mkdir -p "$cache"
	local tmp
	tmp=$(mktemp -d "$cache/fetch.XXXXXX")
	cat >"$tmp/pom.xml" <<-POM
		<project xmlns="http://maven.apache.org/POM/4.0.0">
		  <modelVersion>4.0.0</modelVersion>
		  <groupId>streamsvm</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
		  <dependencies>
		    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$KAFKA_VERSION</version></dependency>
		    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>$LOG4J_VERSION</version></dependency>
		    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>$LOG4J_VERSION</version></dependency>
		  </dependencies>
		</project>
	POM
	local try ok=
	for try in 1 2 3; do
		if (cd "$tmp" && mvn -q -B "$PLUGIN:copy-dependencies" -DincludeScope=runtime -DoutputDirectory="$tmp/libs") >&2; then
			ok=1
			break
		fi
		echo "kafka.sh: download failed, try $try of 3" >&2
		sleep $((try * 5))
	done
	[ -n "$ok" ] || { rm -rf "$tmp"; die "cannot download Apache Kafka $KAFKA_VERSION"; }
	cat >"$tmp/log4j2.properties" <<-'LOG'
		status=ERROR
		appender.console.type=Console
		appender.console.name=STDOUT
		appender.console.layout.type=PatternLayout
		appender.console.layout.pattern=[%d] %p %m (%c)%n
		rootLogger.level=WARN
		rootLogger.appenderRef.stdout.ref=STDOUT
		logger.server.name=kafka.server.KafkaRaftServer
		logger.server.level=INFO
	LOG
	: >"$tmp/complete"
	# Whoever renames first wins; the other copy is the same.
	mv -T "$tmp" "$home" 2>/dev/null || rm -rf "$tmp"
	[ -f "$home/complete" ] || die "cannot write $home"
}

# free_ports N prints N ports that nothing listens on, outside the range from
# which the kernel picks ports for outgoing connections.
free_ports() {
	local n=$1 p
	while [ "$n" -gt 0 ]; do
		p=$((10000 + (RANDOM * 32768 + RANDOM) % 20000))
		if ! (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then
			echo "$p"
			n=$((n - 1))
		fi
	done
}

pid() { cat "$dir/pid" 2>/dev/null || true; }

# alive says whether our broker runs: the pid may have been reused since.
alive() {
	local p args
	p=$(pid)
	[ -n "$p" ] && kill -0 "$p" 2>/dev/null || return 1
	args=$(tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline") || return 1
	[[ $args == *"$dir/server.properties"* ]]
}

java_run() { # class, arguments…
	java -Dlog4j2.configurationFile="$home/log4j2.properties" "${jvm[@]}" -cp "$home/libs/*" "$@"
}

# configure ID PORT VOTERS PORT-OF-CONTROLLER
configure() {
	mkdir -p "$dir"
	cat >"$dir/server.properties" <<-CONF
		process.roles=broker,controller
		node.id=$1
		controller.quorum.voters=$3
		controller.listener.names=CONTROLLER
		listeners=PLAINTEXT://127.0.0.1:$2,CONTROLLER://127.0.0.1:$4
		advertised.listeners=PLAINTEXT://127.0.0.1:$2
		listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
		inter.broker.listener.name=PLAINTEXT
		log.dirs=$dir/data
		auto.create.topics.enable=false
		offsets.topic.replication.factor=1
		offsets.topic.num.partitions=4
		transaction.state.log.replication.factor=1
		transaction.state.log.min.isr=1
		transaction.state.log.num.partitions=4
		share.coordinator.state.topic.replication.factor=1
		share.coordinator.state.topic.min.isr=1
		group.initial.rebalance.delay.ms=0
		group.min.session.timeout.ms=1000
		group.consumer.min.session.timeout.ms=1000
		group.consumer.session.timeout.ms=3000
		group.consumer.min.heartbeat.interval.ms=500
		group.consumer.heartbeat.interval.ms=500
		log.cleaner.backoff.ms=500
		log.retention.ms=-1
		# A killed broker comes back in seconds, not after the default 9 s session.
		broker.session.timeout.ms=3000
		broker.heartbeat.interval.ms=500
		initial.broker.registration.timeout.ms=60000
	CONF
	echo "$2" >"$dir/port"
}

# configure_cluster PORT ADVERTISED adds to the configuration of a node; the
# later of two lines for one setting counts. Timeouts are Kafka's defaults.
configure_cluster() {
	sed -i -e "s|^listeners=.*|&,VIA://127.0.0.1:$1|" -e "s|^advertised.listeners=.*|&,VIA://127.0.0.1:$2|" \
		-e "s|^listener.security.protocol.map=.*|&,VIA:PLAINTEXT|" -e '/^broker\.\(session\|heartbeat\)/d' -e '/^#/d' \
		-e 's/replication.factor=1/replication.factor=3/' -e 's/min.isr=1/min.isr=2/' "$dir/server.properties"
	cat >>"$dir/server.properties" <<-CONF
		default.replication.factor=3
		min.insync.replicas=2
		# Tests say when.
		auto.leader.rebalance.enable=false
	CONF
	# Three share a machine, and start often.
	echo "-Xmx256m -Xms256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1" >"$dir/jvm"
}

# issue NAME SUBJECT: a key and a certificate of our authority, for the loopback
# address; with NAME expired one that ended yesterday.
issue() {
	local when=(-days 30)
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$2"
	if [[ $1 == expired* ]]; then
		# OpenSSL before 3.4 has no option for dates, but takes negative days.
		when=(-days -1)
		if openssl x509 -help 2>&1 | grep -q -- -not_after; then
			when=(-not_before 20200101000000Z -not_after 20200201000000Z)
		fi
	fi
	openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial "${when[@]}" -out "$1.pem" \
		-extfile <(echo "subjectAltName=IP:127.0.0.1,DNS:localhost")
	cat "$1.key" "$1.pem" >"$1.both"
}

certificates() {
	command -v openssl >/dev/null || die "OpenSSL is missing (Debian: apt-get install openssl)"
	mkdir -p "$dir/tls"
	(
		cd "$dir/tls"
		umask 077
		openssl rand -hex 16 >password
		local ca
		for ca in ca other; do
			openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $ca.key -out $ca.pem -days 30 -subj "/CN=streamsvm $ca"
		done
		issue server localhost
		issue expired localhost
		issue trainer trainer
		issue expired-trainer trainer
	) >>"$dir/log" 2>&1 || die "cannot make certificates: $(tail -3 "$dir/log")"
}

# configure_secure PORTS… adds to the configuration: PORTS are those of TLS,
# MTLS, EXPIRED, SASL, SASLTLS, OAUTH and OAUTHTLS.
configure_secure() {
	local names=(TLS MTLS EXPIRED SASL SASLTLS OAUTH OAUTHTLS) kinds=(SSL SSL SSL SASL_PLAINTEXT SASL_SSL SASL_PLAINTEXT SASL_SSL) i n listeners='' map='' secret
	secret=$(cat "$dir/tls/password")
	: >"$dir/secure.env"
	echo "PLAINTEXT=127.0.0.1:$(cat "$dir/port")" >>"$dir/secure.env"
	for i in "${!names[@]}"; do
		n=${names[i]}
		listeners+=",$n://127.0.0.1:$1"
		map+=",$n:${kinds[i]}"
		echo "$n=127.0.0.1:$1" >>"$dir/secure.env"
		shift
	done
	sed -i -e "s|^listeners=.*|&$listeners|" -e "s|^advertised.listeners=.*|&$listeners|" \
		-e "s|^listener.security.protocol.map=.*|&$map|" "$dir/server.properties"
	cat >>"$dir/server.properties" <<-CONF
		authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
		super.users=User:ANONYMOUS;User:admin
		ssl.keystore.type=PEM
		ssl.keystore.location=$dir/tls/server.both
		ssl.truststore.type=PEM
		ssl.truststore.location=$dir/tls/ca.pem
		listener.name.mtls.ssl.client.auth=required
		listener.name.expired.ssl.keystore.type=PEM
		listener.name.expired.ssl.keystore.location=$dir/tls/expired.both
		sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
	CONF
	local plain=org.apache.kafka.common.security.plain.PlainLoginModule scram=org.apache.kafka.common.security.scram.ScramLoginModule
	for n in sasl sasltls; do
		cat >>"$dir/server.properties" <<-CONF
			listener.name.$n.plain.sasl.jaas.config=$plain required user_admin="$secret" user_trainer="$secret" user_nobody="$secret";
			listener.name.$n.scram-sha-256.sasl.jaas.config=$scram required;
			listener.name.$n.scram-sha-512.sasl.jaas.config=$scram required;
		CONF
	done
	for n in oauth oauthtls; do
		cat >>"$dir/server.properties" <<-CONF
			listener.name.$n.sasl.enabled.mechanisms=OAUTHBEARER
			listener.name.$n.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
			# Ends a session with its token, rather than never.
			listener.name.$n.oauthbearer.connections.max.reauth.ms=3600000
		CONF
	done
	chmod 600 "$dir/server.properties"
	scram_users=()
	for n in admin trainer nobody; do
		scram_users+=(--add-scram "SCRAM-SHA-256=[name=$n,password=$secret]" --add-scram "SCRAM-SHA-512=[name=$n,password=$secret]")
	done
}

scram_users=()

# format ID makes the node's storage, of the cluster of that id.
format() {
	jvm=(-Xmx128m -XX:TieredStopAtLevel=1)
	java_run kafka.tools.StorageTool format -t "$1" -c "$dir/server.properties" "${scram_users[@]}" >>"$dir/log" 2>&1 ||
		die "cannot format $dir/data: $(tail -3 "$dir/log")"
	: >"$dir/formatted"
}

cluster_id() { # 16 bytes in base64url
	head -c 16 /dev/urandom | base64 | tr '+/' 'AB' | tr -d '='
}

launch() {
	jvm=("-Xmx${KAFKA_HEAP:-512m}" "-Xms${KAFKA_HEAP:-512m}" -XX:+UseG1GC -XX:MaxGCPauseMillis=20)
	[ ! -f "$dir/jvm" ] || read -ra jvm <"$dir/jvm"
	(
		cd "$dir"
		# shellcheck disable=SC2094
		setsid nohup java -Dlog4j2.configurationFile="$home/log4j2.properties" "${jvm[@]}" \
			-cp "$home/libs/*" kafka.Kafka "$dir/server.properties" </dev/null >>"$dir/log" 2>&1 &
		echo $! >"$dir/pid"
	)
	# Until it has become java, it does not look like our broker.
	local i
	for ((i = 0; i < 100; i++)); do
		alive && break
		sleep 0.1
	done
}

await() {
	local i
	for ((i = 0; i < 480; i++)); do
		if status 2>/dev/null; then
			return
		fi
		alive || die "the broker ended while starting: $(tail -5 "$dir/log")"
		sleep 0.25 # each look starts processes, which a busy machine feels
	done
	die "the broker is not ready after 120 s: $(tail -5 "$dir/log")"
}

need_java() { command -v java >/dev/null || die "Java is missing (Debian: apt-get install openjdk-17-jre-headless)"; }

start() {
	fetch
	need_java
	local want=${1:-}
	# Copied log files of a killed broker would be recovered; a half-formatted
	# directory would not, hence the marker.
	if [ ! -f "$dir/formatted" ]; then
		mkdir -p "$dir"
		rm -rf "$dir/data"
		local ports
		mapfile -t ports < <(free_ports 9)
		configure 1 "${want:-${ports[0]}}" "1@127.0.0.1:${ports[1]}" "${ports[1]}"
		if [ "$cmd" = secure ]; then
			certificates
			configure_secure "${ports[@]:2}"
		fi
		format "$(cluster_id)"
	fi
	if alive; then
		status || die "the broker of $dir runs but does not answer"
		return
	fi
	launch
	await
}

cluster() {
	fetch
	need_java
	local all=$dir n id ports voters
	if [ ! -f "$all/3/formatted" ]; then
		mkdir -p "$all"
		rm -rf "$all"/[123] "$all/via"
		mapfile -t ports < <(free_ports 12)
		voters=1@127.0.0.1:${ports[0]},2@127.0.0.1:${ports[1]},3@127.0.0.1:${ports[2]}
		id=$(cluster_id)
		for n in 1 2 3; do
			dir=$all/$n
			configure $n "${ports[n + 2]}" "$voters" "${ports[n - 1]}"
			configure_cluster "${ports[n + 5]}" "${ports[n + 8]}"
			echo "${ports[n + 8]} ${ports[n + 5]}" >>"$all/via"
			format "$id"
		done
	fi
	# None answers before there is a majority of them.
	for n in 1 2 3; do
		dir=$all/$n
		alive || launch
	done
	for n in 1 2 3; do
		dir=$all/$n
		await
	done
}

# status sends an ApiVersions request (key 18, version 0, correlation id 1, no
# client id) and wants the correlation id back: an open port alone does not
# mean that the broker answers.
status() {
	local port reply
	alive || return 1
	port=$(cat "$dir/port")
	reply=$(
		exec 3<>"/dev/tcp/127.0.0.1/$port" || exit 1
		printf '\0\0\0\012\0\022\0\0\0\0\0\001\377\377' >&3
		timeout 2 head -c 10 <&3 | od -An -tx1 | tr -d ' \n'
	) 2>/dev/null || return 1
	# Size (4 bytes), correlation id 1 (4), error code 0 (2).
	[ "${reply:8}" = 000000010000 ] || return 1
	echo "127.0.0.1:$port"
}

# end SIGNAL waits until the process has gone; SIGTERM is given a minute.
end() {
	local p i
	p=$(pid)
	if ! alive; then
		rm -f "$dir/pid"
		return
	fi
	kill "-$1" "$p" 2>/dev/null || true
	for ((i = 0; i < 600; i++)); do
		kill -0 "$p" 2>/dev/null || break
		[ "$(ps -o stat= -p "$p" 2>/dev/null | cut -c1)" = Z ] && break
		sleep 0.1
	done
	if alive; then kill -KILL "$p" 2>/dev/null || true; fi
	rm -f "$dir/pid"
}

case $cmd in
fetch) fetch ;;
start) start "${3:-}" ;;
secure)
	start >/dev/null
	[ -f "$dir/secure.env" ] || die "the broker of $dir is not a secure one"
	cat "$dir/secure.env"
	;;
cluster)
	[ -n "${2:-}" ] || die "cluster needs a directory"
	cluster
	;;
stop) end TERM ;;
kill) end KILL ;;
status) status || die "no broker of $dir answers" ;;
clean)
	all=$dir
	for dir in "$all" "$all"/[123]; do
		end KILL
	done
	rm -rf "$all"
	;;
*)
	sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
	exit 64
	;;
esac
