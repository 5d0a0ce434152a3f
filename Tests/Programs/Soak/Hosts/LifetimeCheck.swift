import NumberMachines
import PipeRuntime

/// Finds processes of the same node that lived at the same time. Uses the files that
/// ``LifetimeRecorder`` writes.
package struct LifetimeCheck {
  /// The lifetime of a process, from its first record to its last. Unit: nanoseconds.
  package struct Lifetime: Equatable {
    package var node: String
    package var first: Int
    package var last: Int

    package init(node: String, first: Int, last: Int) {
      self.node = node
      self.first = first
      self.last = last
    }
  }

  /// A description of each violation.
  package private(set) var violations: [String] = []
  package let count: Int

  package init(_ lifetimes: [Lifetime]) {
    count = lifetimes.count
    for (node, lifetimes) in Dictionary(grouping: lifetimes, by: \.node).sorted(by: {
      $0.key < $1.key
    }) {
      let lifetimes = lifetimes.sorted { $0.first < $1.first }
      // The earlier lifetime with the latest end.
      var latestEnding: Lifetime?
      for lifetime in lifetimes {
        if let latestEnding, lifetime.first <= latestEnding.last {
          violations.append(
            "two processes of '\(node)' have lived at the same time, for "
              + Duration.nanoseconds(min(lifetime.last, latestEnding.last) - lifetime.first)
              .shortText)
        }
        if lifetime.last >= latestEnding?.last ?? 0 { latestEnding = lifetime }
      }
    }
  }

  /// Reads all files of a directory.
  static func lifetimes(in directory: String) -> [Lifetime] {
    FileSystem.entryNames(of: directory).compactMap { name in
      guard let text = FileSystem.text(of: directory + "/" + name) else { return nil }
      let words = text.split { $0 == " " || $0 == "\n" }.compactMap { Int($0) }
      // Skip a process that was killed before its first record.
      guard words.count == 2, let dot = name.lastIndex(of: ".") else { return nil }
      return Lifetime(node: String(name[..<dot]), first: words[0], last: words[1])
    }
  }
}
