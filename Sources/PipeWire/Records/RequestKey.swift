/// Who asked, and which of its requests it was: the same however often it is sent.
package struct RequestKey: Hashable {
  /// The client's own random number; 0 where it wants no request to be told apart.
  package var client: UInt64
  package var id: UInt64

  package init(client: UInt64, id: UInt64) {
    self.client = client
    self.id = id
  }
}
