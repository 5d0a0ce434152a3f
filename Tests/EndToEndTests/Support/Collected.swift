import Synchronization

/// The elements that a stream has produced so far.
final class Collected<Element: Sendable>: Sendable {
  private let elements = Mutex<[Element]>([])
  private let reading = Mutex<Task<Void, Never>?>(nil)

  init<Told: AsyncSequence & Sendable>(_ told: Told)
  where Told.Element == Element, Told.Failure == Never {
    let task = Task { [weak self] in
      for await element in told { self?.append(element) }
    }
    reading.withLock { $0 = task }
  }

  deinit { reading.withLock { $0?.cancel() } }

  private func append(_ element: Element) { elements.withLock { $0.append(element) } }

  var all: [Element] { elements.withLock { $0 } }
}
