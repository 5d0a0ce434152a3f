import PipeMachines
import PipeWire

/// Reads and follows the logs of a topology: from its log files on this host, or through its
/// orchestrator on another host.
package struct TopologyLogs: Sendable {
  private enum Source: Sendable {
    case files(directory: String)
    case orchestrator(TopologyClient)
  }

  private let source: Source
  private var request: LogRequest

  /// - Parameters:
  ///   - directory: The directory with the logs of a topology on this host. The directory does not
  ///     have to exist yet.
  ///   - nodes: The names of the nodes; `nil` for all nodes.
  package init(directory: String, nodes: [String]? = nil, follows: Bool = false) {
    source = .files(directory: directory)
    request = LogRequest(nodes: nodes, isFollowed: follows)
  }

  /// - Parameters:
  ///   - client: A client of a topology on another host.
  ///   - nodes: The names of the nodes; `nil` for all nodes.
  package init(_ client: TopologyClient, nodes: [String]? = nil, follows: Bool = false) {
    source = .orchestrator(client)
    request = LogRequest(nodes: nodes, isFollowed: follows)
    if follows { client.post { $0.control.requestEndReport() } }
  }

  /// Returns a reader that continues at the same position, with another client of the topology.
  package func continued(on client: TopologyClient) -> TopologyLogs {
    var logs = TopologyLogs(client)
    logs.request = request
    return logs
  }

  /// Returns entries that were written since the last call, in order of time. One call may return
  /// only some of these entries.
  /// - Parameters:
  ///   - lines: For the first call, the maximum number of lines of each node, counted from the end;
  ///     `nil` for all.
  ///   - time: For the first call, the earliest time of returned entries. Unit: milliseconds since
  ///     1970.
  /// - Returns: The entries, and whether another call would return more entries.
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
      let page: LogPage = try await client.command(.logs(request)).extract {
        if case .logs(let page) = $0 { page } else { nil }
      }
      request.take(page.positions)
      return (page.lines.map(LogEntry.init), page.hasMore)
    }
  }

  /// Stops following the logs. Afterwards, call ``next(lines:since:)`` until `hasMore` is false.
  /// These calls also return entries that are written during the call.
  package mutating func end() { request.isFollowed = false }
}
