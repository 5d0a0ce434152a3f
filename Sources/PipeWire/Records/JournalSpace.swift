import Glibc

/// The space that a node's journal takes on its disk.
public struct JournalSpace: Codable, Hashable, Sendable {
  /// The size of the database. Unit: bytes.
  public var database: Int64
  /// The size of the write-ahead log. Unit: bytes.
  public var writeAheadLog: Int64
  /// The size of the memory-mapped file with the record log. Unit: bytes.
  public var recordLog: Int64
  /// The space on the disk; `nil` if it is unknown.
  public var disk: DiskSpace?

  /// The size of all files. Unit: bytes.
  public var total: Int64 { database + writeAheadLog + recordLog }

  package init(
    database: Int64, writeAheadLog: Int64 = 0, recordLog: Int64 = 0, disk: DiskSpace? = nil
  ) {
    self.database = database
    self.writeAheadLog = writeAheadLog
    self.recordLog = recordLog
    self.disk = disk
  }

  /// Measures the files of the journal at `path`. A missing file has the size 0.
  package init(ofJournal path: String) {
    func size(_ suffix: String) -> Int64 {
      var status = stat()
      return stat(path + suffix, &status) == 0 ? Int64(status.st_size) : 0
    }
    self.init(
      database: size(""), writeAheadLog: size("-wal"), recordLog: size(".step"),
      disk: DiskSpace(ofDiskWith: path))
  }
}

/// The space on a disk: a file system that holds journals.
public struct DiskSpace: Codable, Hashable, Sendable {
  /// The number of the file system's device. Different hosts may use the same number.
  public var device: UInt64
  /// The space that is used, or that unprivileged processes can still use. Unit: bytes.
  public var size: Int64
  /// The space that unprivileged processes can still use. Unit: bytes.
  public var free: Int64

  package init(device: UInt64, size: Int64, free: Int64) {
    self.device = device
    self.size = size
    self.free = free
  }

  /// Measures the disk that holds the file at `path`. Returns `nil` if the file does not exist.
  package init?(ofDiskWith path: String) {
    var (file, disk) = (stat(), statvfs())
    guard stat(path, &file) == 0, statvfs(path, &disk) == 0 else { return nil }
    func bytes(_ blockCount: UInt) -> Int64 {
      Int64(clamping: UInt64(blockCount).multipliedReportingOverflow(by: UInt64(disk.f_frsize)).0)
    }
    let free = bytes(disk.f_bavail)
    // Like `df`, leaves out the blocks that are reserved for root.
    let used = bytes(disk.f_blocks - min(disk.f_bfree, disk.f_blocks))
    self.init(device: UInt64(file.st_dev), size: used + free, free: free)
  }

  /// The fraction of the disk that is used, rounded down. Unit: percent.
  public var usedPercent: Int {
    size > 0 ? Int(100 * Double(max(0, size - free)) / Double(size)) : 0
  }

  /// The percentage from which a disk counts as nearly full.
  package static let warningPercent = 80
  /// Whether so much of the disk is used that the journals may soon have no space.
  package var isNearlyFull: Bool { usedPercent >= Self.warningPercent }
}
