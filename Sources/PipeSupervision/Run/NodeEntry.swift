import PipeWire

/// How a process that is bound for other hosts gets in: its keys, and where the orchestrator is.
struct NodeEntry {
  let control: String
  let keys: NodeArguments.Keys
}
