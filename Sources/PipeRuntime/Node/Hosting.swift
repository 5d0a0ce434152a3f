/// What a node gives to the machine that it hosts.
public struct _Hosting {
  let parameters: JSONValue
  let log: NodeLog
  let loop: LoopHandle
  let topology: String
  let node: String
  let incarnation: UInt64
  let journal: Journal?
}

/// A machine as a node holds it.
public struct _HostedMachine {
  let content: any NodeContent
}
