import Glibc

/// The limit on open files. libzmq aborts a process that has no file descriptors left. So before a
/// run, the orchestrator raises its limit to the required number. Its child processes inherit the
/// limit.
package enum OpenFileLimit {
  /// The error that a process of the run requires more open files than its hard limit allows.
  package struct ExceededError: Error, Hashable, CustomStringConvertible {
    /// The process that requires the files: `the orchestrator`, or a node.
    package var processDescription: String
    package var requiredCount: Int
    package var hardLimit: Int

    package var description: String {
      "\(processDescription) requires up to \(requiredCount) open files, and the hard limit of this user is "
        + "\(hardLimit); raise the hard limit ('ulimit -Hn \(requiredCount)', or 'nofile' in "
        + "limits.conf(5))"
    }
  }

  /// Returns the number of open files that an orchestrator requires, including a reserve for
  /// clients.
  /// - Parameter watchedNodeCount: The number of nodes for whose states other nodes wait.
  package static func ofOrchestrator(nodeCount: Int, watchedNodeCount: Int = 0) -> Int {
    64 + 6 * nodeCount + 2 * watchedNodeCount
  }

  /// Returns the number of open files that a node requires, including a reserve for clients.
  /// - Parameters:
  ///   - outboundConnectionCount: The number of the node's outbound connections: its outgoing pipes
  ///     and, for a coordinator, its participants.
  ///   - inboundPipeCount: The number of the node's incoming pipes.
  package static func ofNode(outboundConnectionCount: Int, inboundPipeCount: Int) -> Int {
    64 + 4 * outboundConnectionCount + 2 * inboundPipeCount
  }

  /// Raises the soft limit of this process, and of the processes that it starts, to `required`.
  /// - Throws: ``ExceededError`` if the hard limit is lower.
  package static func raise(to required: Int, for processDescription: String) throws(ExceededError)
  {
    guard let limit = currentLimit, limit.rlim_cur < rlim_t(required) else { return }
    guard limit.rlim_max >= rlim_t(required) else {
      throw ExceededError(
        processDescription: processDescription, requiredCount: required,
        hardLimit: Int(clamping: limit.rlim_max))
    }
    set(limit, to: rlim_t(required))
  }

  /// Raises the soft limit of this process, and of the processes that it starts, to the hard limit.
  package static func raise() {
    if let limit = currentLimit, limit.rlim_cur < limit.rlim_max { set(limit, to: limit.rlim_max) }
  }

  private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)

  private static var currentLimit: rlimit? {
    var limit = rlimit()
    return getrlimit(resource, &limit) == 0 ? limit : nil
  }

  private static func set(_ limit: rlimit, to count: rlim_t) {
    var limit = limit
    limit.rlim_cur = count
    setrlimit(resource, &limit)
  }
}
