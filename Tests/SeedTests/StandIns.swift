// The parts of SwiftUI that the examples need, for platforms without SwiftUI. Views call their closures.

@MainActor protocol View {
  associatedtype Body: View
  var body: Body { get }
  func render(into screen: Screen)
}

extension View {
  func render(into screen: Screen) { body.render(into: screen) }

  func task(_ action: @escaping @MainActor () async -> Void) -> some View {
    Appearing(content: self, action: action)
  }
}

extension Never: View {
  var body: Never { fatalError("has no value") }
}

/// The texts, buttons and tasks of a rendered view.
@MainActor final class Screen {
  var texts: [String] = []
  var buttons: [String: () -> Void] = [:]
  var tasks: [@MainActor () async -> Void] = []

  init(_ view: some View) { view.render(into: self) }
}

struct Text: View {
  let text: String
  init(_ text: String) { self.text = text }
  var body: Never { fatalError("a text has no body") }
  func render(into screen: Screen) { screen.texts.append(text) }
}

struct Button: View {
  let action: @MainActor () -> Void
  let label: () -> Text
  init(action: @escaping @MainActor () -> Void, label: @escaping () -> Text) {
    self.action = action
    self.label = label
  }
  var body: Never { fatalError("a button has no body") }
  func render(into screen: Screen) { screen.buttons[label().text] = action }
}

struct VStack<each Content: View>: View {
  let content: (repeat each Content)
  init(@ViewBuilder _ content: () -> (repeat each Content)) { self.content = content() }
  var body: Never { fatalError("a stack has no body") }
  func render(into screen: Screen) { repeat (each content).render(into: screen) }
}

@MainActor @resultBuilder enum ViewBuilder {
  static func buildBlock<each Content: View>(
    _ content: repeat each Content
  ) -> (repeat each Content) { (repeat each content) }
}

private struct Appearing<Content: View>: View {
  let content: Content
  let action: @MainActor () async -> Void
  var body: Never { fatalError("a view modifier has no body") }
  func render(into screen: Screen) {
    content.render(into: screen)
    screen.tasks.append(action)
  }
}

@propertyWrapper struct ObservedObject<Object: AnyObject> {
  let wrappedValue: Object
}
