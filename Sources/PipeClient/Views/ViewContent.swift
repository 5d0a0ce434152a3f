import PipeMachines
import PipeSupport

/// What a view shows of a node, whatever its types.
package protocol ViewContent {
  /// The node is in another state.
  mutating func show(_ state: JSONValue, size: TerminalSize) throws
  /// Takes a key; its event, as JSON.
  mutating func press(_ key: Key, size: TerminalSize) throws -> JSONValue?
  func body(size: TerminalSize) -> [StyledLine]
  var takesText: Bool { get }
  /// The event of what happens to the view.
  func event(at moment: ViewMoment, size: TerminalSize) throws -> JSONValue?
}

/// What happens to a view, other than keys.
package enum ViewMoment {
  case appearing
  case disappearing
  /// What is in sight has changed.
  case showing
}

/// Opens a view on the first state that is seen of a node.
package protocol ViewReader {
  func read(_ state: JSONValue) throws -> any ViewContent
}

extension TerminalView {
  /// A reader of the view's states.
  package static func reader() -> any ViewReader { ViewStateReader<Self>() }
}

private final class ViewStateReader<View: TerminalView>: ViewReader {
  private let codec = EventCodec<View.State>()

  func read(_ state: JSONValue) throws -> any ViewContent {
    ViewedScreen<View>(codec: codec, screen: View.screen(of: try codec.decode(state.bytes)))
  }
}

private struct ViewedScreen<View: TerminalView>: ViewContent {
  let codec: EventCodec<View.State>
  var screen: View.Screen

  mutating func show(_ state: JSONValue, size: TerminalSize) throws {
    View.update(&screen, to: try codec.decode(state.bytes), size: size)
  }

  mutating func press(_ key: Key, size: TerminalSize) throws -> JSONValue? {
    try json(View.press(key, in: &screen, size: size))
  }

  func body(size: TerminalSize) -> [StyledLine] { View.body(screen, size: size) }

  var takesText: Bool { View.takesText(screen) }

  func event(at moment: ViewMoment, size: TerminalSize) throws -> JSONValue? {
    switch moment {
    case .appearing: try json(View.onAppear(screen))
    case .disappearing: try json(View.onDisappear(screen))
    case .showing: try json(View.onShow(screen, size: size))
    }
  }

  private func json(_ event: View.Event?) throws -> JSONValue? {
    try event.map { try JSONValue(parsing: EventCodec<View.Event>().encode($0)) }
  }
}
