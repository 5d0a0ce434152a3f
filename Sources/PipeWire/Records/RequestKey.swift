/// Who asked, and which of its requests it was: the same however often it is sent.
struct RequestKey: Hashable {
  /// The client's own random number; 0 where it wants no request to be told apart.
  var client: UInt64
  var id: UInt64
}
