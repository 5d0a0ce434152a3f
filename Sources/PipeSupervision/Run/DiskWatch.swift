import PipeWire

/// Decides when to warn about a disk that holds journals: once each time that it becomes nearly
/// full.
package struct DiskWatch {
  private struct Disk: Hashable {
    var host: String?
    var device: UInt64
  }

  private var nearlyFullDisks: Set<Disk> = []

  package init() {}

  /// How far below the limit a disk must fall before the next warning. Unit: percent.
  private static let margin = 2

  /// Takes a report about a disk.
  /// - Parameter host: The host of the disk; `nil` for the orchestrator's own host.
  /// - Returns: Whether to warn about the disk.
  package mutating func take(_ space: DiskSpace, on host: String?) -> Bool {
    let disk = Disk(host: host, device: space.device)
    if space.isNearlyFull { return nearlyFullDisks.insert(disk).inserted }
    if space.usedPercent < DiskSpace.warningPercent - Self.margin { nearlyFullDisks.remove(disk) }
    return false
  }
}
