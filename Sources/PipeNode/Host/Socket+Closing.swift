import PipeSupport
import PipeTransport

extension Socket {
  /// Closes the socket; what it holds goes out within this time, while its context ends.
  func close(lingering time: Duration) {
    setLinger(milliseconds: Int32(clamping: time.clampedNanoseconds / 1_000_000))
    close()
  }
}
