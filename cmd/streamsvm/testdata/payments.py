"""Writes payments to a topic with Confluent's client and its serializers.

usage: payments.py BROKERS REGISTRY TOPIC HOW N
"""
import os
import subprocess
import sys
import tempfile

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

brokers, registry, topic, how, n = *sys.argv[1:5], int(sys.argv[5])
client = SchemaRegistryClient({"url": registry})
conf = {}
if how.endswith("-header"):
    conf["schema.id.serializer"] = header_schema_id_serializer


def payment(i):
    country = ["DE", "FR", "NG"][i % 3]
    amount = (i * 37) % 200 / 2
    return {"amount": amount, "country": country, "fraud": amount > 60 or country == "NG" and amount > 30}


if how.startswith("avro"):
    schema = """{"type":"record","name":"Payment","namespace":"shop","fields":[
      {"name":"amount","type":["null","double"],"default":null},
      {"name":"country","type":{"type":"enum","name":"Country","symbols":["DE","FR","NG"]}},
      {"name":"fraud","type":"boolean"}]}"""
    serializer, make = AvroSerializer(client, schema, conf=conf), payment
elif how.startswith("protobuf"):
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "payment.proto"), "w") as f:
            f.write("""syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
              message Refund { string why = 1; }
              message Payment { optional double amount = 1; Country country = 2; bool fraud = 3; google.protobuf.Timestamp at = 4; }
              enum Country { DE = 0; FR = 1; NG = 2; }""")
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{d}", f"--python_out={d}", "payment.proto"], cwd=d, check=True)
        sys.path.insert(0, d)
        import payment_pb2

    def make(i):
        p = payment(i)
        m = payment_pb2.Payment(amount=p["amount"], country=p["country"], fraud=p["fraud"])
        m.at.FromSeconds(1_700_000_000 + i)
        return m

    serializer = ProtobufSerializer(payment_pb2.Payment, client, conf={"use.deprecated.format": False, **conf})
else:
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

    schema = """{"title":"Payment","type":"object","properties":{"amount":{"type":"number"},"country":{"type":"string"},"fraud":{"type":"boolean"}}}"""
    serializer = JSONSerializer(schema, client, conf=conf)
    make = payment

producer = Producer({"bootstrap.servers": brokers})
for i in range(n):
    headers = []
    value = serializer(make(i), SerializationContext(topic, MessageField.VALUE, headers))
    producer.produce(topic, value, headers=headers)
    producer.poll(0)
if producer.flush(30):
    sys.exit("not all records have been sent")
