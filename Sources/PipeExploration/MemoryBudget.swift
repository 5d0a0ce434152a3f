/// The memory that a part of a search has taken, and may take. Unit: bytes.
final class MemoryBudget {
  let limit: Int
  private(set) var used = 0
  private(set) var peak = 0

  init(limit: Int) {
    self.limit = limit
  }

  var isExceeded: Bool { used > limit }

  func allows(_ byteCount: Int) -> Bool { byteCount <= limit - used }

  func take(_ byteCount: Int) {
    used += byteCount
    peak = max(peak, used)
  }

  func giveBack(_ byteCount: Int) { used -= byteCount }
}
