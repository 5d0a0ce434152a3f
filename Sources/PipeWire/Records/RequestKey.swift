/// Tells a request of a client apart from all others, also when it is sent again.
package struct RequestKey: Hashable, Sendable {
  /// The client's own random number; 0 where it wants no request to be told apart.
  package var client: UInt64
  package var id: UInt64

  package init(client: UInt64, id: UInt64) {
    self.client = client
    self.id = id
  }

  /// No request has this number or a higher one.
  package static let idLimit: UInt64 = 1 << 62

  /// The first number of a client's requests to a node: higher than those of clients that began before, which the
  /// node may have forgotten.
  /// - Parameter time: Unit: nanoseconds since 1970.
  package static func firstID(at time: Int64) -> UInt64 {
    // At most 2^20 requests in a millisecond.
    min(UInt64(max(0, time) / 1_000_000), idLimit >> 21) << 20 | 1
  }
}
