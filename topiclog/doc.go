// Package topiclog appends to logs in Kafka topics, each with one writer at a time.
// Models, aliases, checkpoints and dead letters are such logs: packages modeltopic,
// statetopic and deadletter define their records, this one defines how to write them.
//
// # Claim
//
// Every log has a transactional id, which all its writers share, and most logs hold a
// claim: a record that names the writer from then on. Epochs of claims only grow. Two
// things decide who may write:
//
//   - The newest claim in the log is the authority. A writer whose claim is no longer
//     the newest has been replaced, and gets a [FencedError].
//   - The transactional id makes that safe. Taking it aborts the open transaction of
//     the previous holder, and the brokers refuse everything this holder sends
//     afterwards, even requests that are already under way.
//
// The order is: scan, take the id, scan again, write the claim. The first scan keeps a
// writer that must not claim from fencing a healthy one. The second one finds claims
// that were written in between; after it no more can come, because nobody else holds
// the id. Which claims may be replaced is the caller's decision, see [Log.Claim]. Dead
// letters hold no claim: there a [Log.Lease] says whether the process that writes
// them still owns the job that they belong to.
//
// # Scan
//
// [Log.Scan] reads committed records from the end of the last scan to the present end
// of the topics. While the id is held it waits for transactions that are open at that
// end. Otherwise it does not: one of them may belong to a dead writer, and only taking
// the id aborts it.
//
// # Append
//
// [Append] writes records to one or more logs in one transaction, exactly once. As long
// as nothing fails it writes without reading. After a failure it is unknown whether the
// transaction was committed, and the id may belong to another writer. So it scans, takes
// the id, scans again, and writes only if the log is still its own and the records are
// not there yet. The scan after taking the id is the one that counts: by then a commit
// that was under way has been decided.
//
// # Compaction
//
// Logs with claims are in compacted topics: the newest record of each key is retained.
// A value that is larger than a record is cut into chunks with keys of their own. When
// a shorter value replaces it, the chunks left over get tombstones in the same
// transaction, see [Log.Replace]. Compaction and readers both see committed records
// only, so neither can leave parts of two values.
//
// # Zombies
//
// A zombie is a writer that has been replaced without noticing, because it was paused
// or cut off. It can
//
//   - take the id back. That aborts an open transaction of its successor, which scans,
//     finds its own claim and writes again; the zombie scans too, finds that claim and
//     ends.
//   - leave a transaction open when it dies. Readers of committed records wait until
//     the brokers abort it, at most one minute, or until a successor takes the id.
//
// It cannot commit anything after its successor has taken the id and until it takes it
// back, and then not without having seen the successor's claim.
//
// The API may change.
package topiclog
