import PipeClient
import PipeSystem
import PipeWire

extension Survivor {
  /// Ends processes in order, those first that depend on others: each is terminated, and killed
  /// where that does not help in time. Removes their sockets and records.
  /// - Parameters:
  ///   - isForced: Kills at once.
  ///   - limit: The longest that any has before it is killed.
  /// - Returns: Those that did not end even so.
  package static func end(
    _ survivors: [Survivor], isForced: Bool = false, limit: Duration = .seconds(30),
    in directories: RuntimeDirectories
  ) -> [Survivor] {
    // Who lives in the process of another ends with it, which sees to the order.
    let lodgers = survivors.filter { lodger in
      lodger.host != nil
        && survivors.contains { $0.host == nil && $0.process.pid == lodger.process.pid }
    }
    guard lodgers.isEmpty else {
      let hosts = survivors.filter { one in !lodgers.contains { $0.node == one.node } }
      let left = end(hosts, isForced: isForced, limit: limit, in: directories)
      for lodger in lodgers where lodger.process.hasEnded {
        ProcessRecord.remove(lodger.node, in: directories)
      }
      return left
    }
    let plan = StartPlan(
      nodes: survivors.map(\.node),
      dependencies: Dictionary(
        survivors.map { ($0.node, $0.record?.dependencies ?? []) }
      ) { first, _ in first })
    var left: [Survivor] = []
    for wave in isForced ? [survivors.map(\.node)] : plan.stopWaves {
      let members = survivors.filter { wave.contains($0.node) }
      if !isForced {
        let patience = members.map(\.patience).max() ?? .zero
        for member in members { member.process.signal(member.stopSignal) }
        _ = AdoptedProcess.wait(for: members.map(\.process), until: .now + min(patience, limit))
      }
      // What it started itself ends with it, also where it ended in order.
      for member in members { member.process.signal(.kill, group: true) }
      _ = AdoptedProcess.wait(for: members.map(\.process), until: .now + .seconds(5))
      HelperProcesses.kill(of: Set(members.compactMap { $0.marker(in: directories) }))
      for member in members {
        if member.process.hasEnded {
          ProcessRecord.remove(member.node, in: directories)
        } else {
          left.append(member)
        }
      }
    }
    return left
  }

  /// By which what its process has started is found, once that has ended.
  private func marker(in directories: RuntimeDirectories) -> String? {
    guard let record, record.step == nil, process.hasEnded else { return nil }
    return HelperProcesses.marker(of: node, incarnation: record.incarnation, in: directories)
  }

  private var stopSignal: Signal { record?.stopSignal.map { Signal(number: $0) } ?? .terminate }
  private var patience: Duration { .milliseconds(record?.stopTimeout ?? 5_000) }
}
