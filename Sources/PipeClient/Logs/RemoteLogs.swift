import PipeMachines
import PipeWire

/// Reads the logs of a topology that runs on another host, and follows them.
package struct RemoteLogs: Sendable {
  private let client: TopologyClient
  private let nodes: [String]?
  private var marks: [LogMark] = []
  private var isFirst = true

  /// - Parameters:
  ///   - nodes: `nil` for all.
  ///   - follows: Whether the client is to be told when the topology has ended.
  package init(_ client: TopologyClient, nodes: [String]? = nil, follows: Bool = false) {
    self.client = client
    self.nodes = nodes
    if follows { client.post { $0.control.askForEnd() } }
  }

  /// The same, from where it is, through another client.
  package func going(on client: TopologyClient) -> RemoteLogs {
    var logs = RemoteLogs(client, nodes: nodes)
    (logs.marks, logs.isFirst) = (marks, isFirst)
    return logs
  }

  /// What was written since the last call, or some of it, in the order of its times.
  /// - Parameters:
  ///   - lines: On the first call: the last lines of each node, so many; `nil` for all.
  ///   - time: On the first call: since when. Unit: milliseconds since 1970.
  /// - Returns: The lines, and whether there are more by now.
  /// - Throws: ``TopologyClientError``: `failed` where there is no log of a node.
  package mutating func next(
    lines: Int? = nil, since time: Int64? = nil
  ) async throws -> (lines: [LogPage.Line], hasMore: Bool) {
    let page: LogPage = try await client.command(
      .logs(
        LogRequest(
          nodes: nodes, lines: isFirst ? lines : nil, since: isFirst ? time : nil, marks: marks))
    ).take { if case .logs(let page) = $0 { page } else { nil } }
    isFirst = false
    marks = page.marks
    return (page.lines, page.hasMore)
  }
}
