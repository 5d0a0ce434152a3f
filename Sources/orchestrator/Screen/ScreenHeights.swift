/// How high the parts of a screen are that stand above each other.
package enum ScreenHeights {
  /// Gives each part what it wants, as far as there is room: who wants little gets that, the others share the
  /// rest, and what is left over is the last one's.
  /// - Parameters:
  ///   - wanted: Of each part the lines that it would fill, its heading among them.
  ///   - room: The lines that there are.
  package static func share(_ wanted: [Int], room: Int) -> [Int] {
    var heights = Array(repeating: 0, count: wanted.count)
    var left = max(0, room)
    var open = Array(wanted.indices)
    while !open.isEmpty {
      let fair = left / open.count
      let modest = open.filter { wanted[$0] <= fair }
      guard modest.isEmpty else {
        for index in modest {
          heights[index] = wanted[index]
          left -= wanted[index]
        }
        open.removeAll { modest.contains($0) }
        continue
      }
      for (place, index) in open.enumerated() {
        heights[index] = fair + (place < left % open.count ? 1 : 0)
      }
      return heights
    }
    if let last = heights.indices.last { heights[last] += left }
    return heights
  }
}
