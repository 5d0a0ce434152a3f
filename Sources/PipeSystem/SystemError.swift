import Glibc

/// The error of a failed system call: the name of the call, its object, and the errno.
package struct SystemError: Error, Hashable, CustomStringConvertible {
  package let call: String
  /// The file or other object of the call; `nil` if the call has none.
  package let subject: String?
  /// The errno of the call.
  package let code: Int32

  package init(_ call: String, on subject: String? = nil, code: Int32) {
    self.call = call
    self.subject = subject
    self.code = code
  }

  /// Returns the system's message for an errno.
  package static func text(of code: Int32) -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
      guard strerror_r(code, buffer.baseAddress!, buffer.count) == 0 else { return "error \(code)" }
      return String(cString: buffer.baseAddress!)
    }
  }

  /// Whether an errno means that a disk is full, or that a disk quota is used up.
  package static func isDiskFull(_ code: Int32) -> Bool { code == ENOSPC || code == EDQUOT }

  package var description: String {
    let subjectText = subject.map { " '\($0)'" } ?? ""
    return "\(call)\(subjectText): \(Self.text(of: code)) (errno \(code))"
  }
}

extension Error {
  /// Whether the error means that a disk is full, or that a disk quota is used up.
  package var isDiskFull: Bool {
    (self as? SystemError).map { SystemError.isDiskFull($0.code) } ?? false
  }
}
