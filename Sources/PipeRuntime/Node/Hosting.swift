/// What a node gives to the machine that it hosts.
public struct _Hosting {
  let parameters: JSONValue
  let log: NodeLog
  let loop: LoopHandle
}

/// A machine as a node holds it.
public struct _HostedMachine {
  let content: any NodeContent
}
