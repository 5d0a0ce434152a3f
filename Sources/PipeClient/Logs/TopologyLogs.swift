import PipeMachines
import PipeWire

/// Reads the logs of a topology, and follows them: from its files, or through its orchestrator on another host.
package struct TopologyLogs: Sendable {
  private enum Source: Sendable {
    case files(directory: String)
    case orchestrator(TopologyClient)
  }

  private let source: Source
  private var request: LogRequest

  /// - Parameters:
  ///   - directory: Where the logs of a topology of this host are, or will be.
  ///   - nodes: `nil` for all.
  package init(directory: String, nodes: [String]? = nil, follows: Bool = false) {
    source = .files(directory: directory)
    request = LogRequest(nodes: nodes, isFollowed: follows)
  }

  /// - Parameters:
  ///   - client: A client of a topology of another host.
  ///   - nodes: `nil` for all.
  package init(_ client: TopologyClient, nodes: [String]? = nil, follows: Bool = false) {
    source = .orchestrator(client)
    request = LogRequest(nodes: nodes, isFollowed: follows)
    if follows { client.post { $0.control.askForEnd() } }
  }

  /// Goes on from the same position through another client of the topology.
  package func going(on client: TopologyClient) -> TopologyLogs {
    var logs = TopologyLogs(client)
    logs.request = request
    return logs
  }

  /// What was written since the last call, or some of it, in the order of its times.
  /// - Parameters:
  ///   - lines: On the first call: the last lines of each node, so many; `nil` for all.
  ///   - time: On the first call: since when. Unit: milliseconds since 1970.
  /// - Returns: The entries, and whether there are more.
  /// - Throws: ``TopologyClientError``: `failed` where there is no log of a node.
  package mutating func next(
    lines: Int? = nil, since time: Int64? = nil
  ) async throws -> (entries: [LogEntry], hasMore: Bool) {
    if request.marks.isEmpty { (request.lines, request.since) = (lines, time) }
    switch source {
    case .files(let directory):
      let page = LogPager(directory: directory, byteLimit: LogPager.fileByteLimit).entries(request)
      request.take(page.marks)
      return (page.entries, page.hasMore)
    case .orchestrator(let client):
      let page: LogPage = try await client.command(.logs(request)).take {
        if case .logs(let page) = $0 { page } else { nil }
      }
      request.take(page.marks)
      return (page.lines.map(LogEntry.init), page.hasMore)
    }
  }

  /// Makes the next call the last one: it does not wait for lines that are still being written.
  package mutating func end() { request.isFollowed = false }
}
