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

  /// The state that the machine goes on from; `nil` where it starts anew.
  func restoredState<State: MachineState>(as _: State.Type) throws -> State? {
    guard let record = journal?.contents?.record else { return nil }
    return try EventCodec<State>().decode(record.state)
  }
}
