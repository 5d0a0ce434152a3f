import Glibc

/// The number of files that a process may have open, against what a run needs: libzmq ends a process
/// that has too few.
package enum OpenFileLimit {
  /// A process of the run that may not have as many as it needs.
  package struct Exceeded: Error, Hashable, CustomStringConvertible {
    /// What needs them: `the orchestrator`, or a node.
    package var subject: String
    package var needed: Int
    package var hardLimit: Int

    package var description: String {
      "\(subject) needs up to \(needed) open files, and a process of this user may have \(hardLimit): "
        + "raise the hard limit ('ulimit -Hn \(needed)', or 'nofile' in limits.conf(5))"
    }
  }

  /// What an orchestrator of so many nodes needs, some clients included.
  /// - Parameter watched: The nodes of whose states others wait for one.
  package static func ofOrchestrator(nodes: Int, watched: Int = 0) -> Int {
    64 + 6 * nodes + 2 * watched
  }

  /// What a node needs, some clients included.
  /// - Parameters:
  ///   - outs: Its connections to others: pipes that it sends on, or participants of its composites.
  ///   - ins: Pipes that it receives on.
  package static func ofNode(outs: Int, ins: Int) -> Int { 64 + 4 * outs + 2 * ins }

  /// Lets this process, and those that it starts, have as many; up to the hard limit.
  package static func raise(to needed: Int, for subject: String) throws(Exceeded) {
    guard let limit = current, limit.rlim_cur < rlim_t(needed) else { return }
    guard limit.rlim_max >= rlim_t(needed) else {
      throw Exceeded(subject: subject, needed: needed, hardLimit: Int(clamping: limit.rlim_max))
    }
    set(limit, to: rlim_t(needed))
  }

  /// Lets this process, and those that it starts, have as many as are allowed.
  package static func raise() {
    if let limit = current, limit.rlim_cur < limit.rlim_max { set(limit, to: limit.rlim_max) }
  }

  private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)

  private static var current: rlimit? {
    var limit = rlimit()
    return getrlimit(resource, &limit) == 0 ? limit : nil
  }

  private static func set(_ limit: rlimit, to count: rlim_t) {
    var limit = limit
    limit.rlim_cur = count
    setrlimit(resource, &limit)
  }
}
