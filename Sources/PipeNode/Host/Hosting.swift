import PipeJournal
import PipeMachines
import PipeTransport

/// What a node gives to the machine that it hosts.
package struct Hosting: _Hosting {
  let parameters: JSONValue
  let log: NodeLog
  let loop: LoopHandle
  let topology: String
  let node: String
  let incarnation: UInt64
  let journal: Journal?

  /// What a machine was given, which must be of this runtime.
  static func of(_ machine: String, _ hosting: any _Hosting) throws -> Hosting {
    if let hosting = hosting as? Hosting { return hosting }
    throw NodeProblem("machine '\(machine)' is to be hosted by another runtime")
  }
}
