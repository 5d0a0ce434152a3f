import Synchronization

/// The elements that a stream has produced so far.
final class StreamCollector<Element: Sendable>: Sendable {
  private let elements = Mutex<[Element]>([])
  private let readTask = Mutex<Task<Void, Never>?>(nil)

  init<Source: AsyncSequence & Sendable>(_ source: Source)
  where Source.Element == Element, Source.Failure == Never {
    let task = Task { [weak self] in
      for await element in source { self?.append(element) }
    }
    readTask.withLock { $0 = task }
  }

  deinit { readTask.withLock { $0?.cancel() } }

  private func append(_ element: Element) { elements.withLock { $0.append(element) } }

  var all: [Element] { elements.withLock { $0 } }
}
