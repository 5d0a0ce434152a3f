/// How much of a log is kept: the file that is written, and those that were put aside before it.
public struct LogRetention: Hashable, Sendable {
  /// The size at which a file is put aside. Unit: bytes. Default: 1 MiB. Range: 4 KiB…100 MiB.
  public var maxSize: Int
  /// The files that are kept, with the one that is written. Default: 3. Range: 1…100.
  public var maxFiles: Int

  /// Makes a retention.
  public init(maxSize: Int = 1 << 20, maxFiles: Int = 3) {
    self.maxSize = maxSize
    self.maxFiles = maxFiles
  }

  package static let sizeRange = 4 << 10...100 << 20
  package static let fileRange = 1...100
}
