import PipeRuntime
import Testing

// The view with a binding from the original document, and the ways to create a binding in SwiftUI.

/// A stand-in for SwiftUI's text field.
@MainActor
private struct TextField {
  let title: String
  let text: Binding<String>

  init(_ title: String, _ text: Binding<String>) {
    self.title = title
    self.text = text
  }
}

@MainActor
private struct MessageView {
  @Binding private var message: String

  init(observing model: any ConcurrentValueStateMachineProtocol<String>) {
    self._message = model.binding()
  }

  init(message: Binding<String>) { self._message = message }

  var body: TextField { TextField("Message", $message) }
  func type(_ text: String) { message = text }
  var shown: String { message }
}

@MainActor
@Suite("Bindings of a view")
struct BindingTests {
  @Test("A view declares a binding as an attribute and passes it on with the $ prefix")
  func attribute() {
    let model = ConcurrentValueStateMachine("hello")
    let view = MessageView(observing: model)
    #expect(view.shown == "hello")
    view.body.text.wrappedValue = "good morning"
    #expect(view.shown == "good morning")
    view.type("good night")
    #expect(model.state == "good night")
    #expect(view.body.text.projectedValue.wrappedValue == "good night")
  }

  @Test("A binding can be made from a getter and a setter")
  func functions() {
    var value = 1
    let binding = Binding(get: { value }, set: { value = $0 })
    binding.wrappedValue += 1
    #expect(value == 2 && binding.wrappedValue == 2)
  }

  @Test("A constant binding keeps its value when the binding is set")
  func constant() {
    let view = MessageView(message: .constant("fixed"))
    view.type("other")
    #expect(view.shown == "fixed")
  }
}
