import PipeMachines
import PipeWire

/// Reads and follows the logs of a topology: from its files, or through its orchestrator on another host.
package struct TopologyLogs: Sendable {
  private enum Source: Sendable {
    case files(directory: String)
    case orchestrator(TopologyClient)
  }

  private let source: Source
  private var request: LogRequest

  /// - Parameters:
  ///   - directory: The directory of the logs of a topology on this host. It need not exist yet.
  ///   - nodes: The nodes; `nil` for all.
  package init(directory: String, nodes: [String]? = nil, follows: Bool = false) {
    source = .files(directory: directory)
    request = LogRequest(nodes: nodes, isFollowed: follows)
  }

  /// - Parameters:
  ///   - client: A client of a topology on another host.
  ///   - nodes: The nodes; `nil` for all.
  package init(_ client: TopologyClient, nodes: [String]? = nil, follows: Bool = false) {
    source = .orchestrator(client)
    request = LogRequest(nodes: nodes, isFollowed: follows)
    if follows { client.post { $0.control.requestEndReport() } }
  }

  /// Continues from the same position through another client of the topology.
  package func continued(on client: TopologyClient) -> TopologyLogs {
    var logs = TopologyLogs(client)
    logs.request = request
    return logs
  }

  /// Returns entries written since the last call, or some of them, in order of time.
  /// - Parameters:
  ///   - lines: On the first call, the number of last lines of each node; `nil` for all.
  ///   - time: On the first call, the time of the oldest entries. Unit: milliseconds since 1970.
  /// - Returns: The entries, and whether there are more.
  /// - Throws: ``TopologyClientError``: `failed` if a node has no log.
  package mutating func next(
    lines: Int? = nil, since time: Int64? = nil
  ) async throws -> (entries: [LogEntry], hasMore: Bool) {
    if request.positions.isEmpty { (request.lines, request.since) = (lines, time) }
    switch source {
    case .files(let directory):
      let page = LogPager(directory: directory, byteLimit: LogPager.fileByteLimit).entries(request)
      request.take(page.positions)
      return (page.entries, page.hasMore)
    case .orchestrator(let client):
      let page: LogPage = try await client.command(.logs(request)).take {
        if case .logs(let page) = $0 { page } else { nil }
      }
      request.take(page.positions)
      return (page.lines.map(LogEntry.init), page.hasMore)
    }
  }

  /// Makes the next call the last one: it does not wait for lines that are still being written.
  package mutating func end() { request.isFollowed = false }
}
