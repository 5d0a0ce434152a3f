import PipeRuntime

extension TopologyDirectory {
  /// The rows of `ps` and of the live view.
  /// - Parameter now: Unit: nanoseconds since 1970.
  func rows(now: Int64) -> [LiveView.Row] {
    nodes.map { node in
      LiveView.Row(
        node: node.name, status: node.phase, state: node.status?.state?.text ?? node.reason ?? "",
        pid: node.pid, uptime: node.startedAt.map { .nanoseconds(max(0, now - $0)) },
        events: Int(node.status?.events ?? 0), restarts: Int(node.restarts))
    }
  }
}
