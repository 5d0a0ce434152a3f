import Glibc

/// Which file a name leads to.
package struct FileIdentity: Hashable {
  private let device: UInt64
  private let number: UInt64
  /// Whether it is a file, and no directory, device or pipe.
  package let isOfFile: Bool

  /// Names it to others of its host.
  package var text: String { "\(device):\(number)" }

  /// That of the file under a path; `nil` where there is none.
  package init?(_ path: String) {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    self.init(status)
  }

  /// That of an open file.
  package init?(descriptor: Int32) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    self.init(status)
  }

  private init(_ status: stat) {
    device = UInt64(status.st_dev)
    number = UInt64(status.st_ino)
    isOfFile = status.st_mode & S_IFMT == S_IFREG
  }
}
