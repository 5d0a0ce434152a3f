import PipeRuntime

/// The example model that is a node in another process.
extension RemoteModel: ExampleModelProtocol
where State == ExampleState, Event == ExampleModel.Event {
  package nonisolated func eventA() { post(.eventA) }
  package nonisolated func eventB(param: Int) { post(.eventB(param: param)) }
}
