import Glibc
import PipeRuntime
import Synchronization

/// Values on their way from tasks to a thread that also waits for other things: one at a time.
final class Handover<Value: Sendable>: Sendable {
  /// Readable while a value waits.
  let descriptor: Int32
  private let writeEnd: Int32
  private let content = Mutex<Value?>(nil)

  init() throws(SystemError) {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw SystemError("pipe", code: errno) }
    (descriptor, writeEnd) = (ends[0], ends[1])
  }

  deinit {
    close(descriptor)
    close(writeEnd)
  }

  /// Called where the value before was taken.
  func put(_ value: Value) {
    content.withLock { $0 = value }
    var byte: UInt8 = 0
    write(writeEnd, &byte, 1)
  }

  /// Called where one waits.
  func take() -> Value? {
    var byte: UInt8 = 0
    read(descriptor, &byte, 1)
    return content.withLock { $0.take() }
  }
}
