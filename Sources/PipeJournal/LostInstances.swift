import PipeMachines
import PipeSupport
import PipeWire

/// The deletion of unreadable instances: a stopped node's instances with states that the node's new
/// program cannot read.
package enum LostInstances {
  /// Deletes the instances with the given keys, including their effects and timers.
  package static func remove(
    _ keys: [String], from path: String, identity: Journal.Identity, durability: Durability
  ) throws(JournalError) {
    let journal = try Journal(path, identity: identity, durability: durability)
    try journal.changeDatabase {
      let removeEffects = try journal.database.prepare(
        "DELETE FROM instance_effect WHERE instance = (SELECT id FROM instance WHERE key = ?)")
      let removeInstance = try journal.database.prepare("DELETE FROM instance WHERE key = ?")
      for key in keys {
        try removeEffects.run(.text(key))
        try removeInstance.run(.text(key))
      }
    }
    if let version = journal.contents?.record.version {
      let counts: [(String, JSONValue)]
      do {
        counts = try journal.updatedDatabase().select(
          "SELECT label, count(*) FROM instance GROUP BY label"
        ) { ($0.text(0).isEmpty ? "instances" : $0.text(0), JSONValue.integer($0.integer(1))) }
      } catch {
        throw JournalError(error, path: path, node: identity.node)
      }
      let state = JSONValue.object(Dictionary(counts) { first, _ in first })
      journal.hasInstances = true
      try journal.record {
        try journal.recordState(
          to: state.bytes, version: version, steps: 0, cause: "accept-loss",
          time: WallClock.nanoseconds, incarnation: 0)
      }
    }
    try journal.finish()
    journal.releaseLock()
  }
}
