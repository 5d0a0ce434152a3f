import Nodes
import PipeRuntime
import PipeRuntimeTestKit
import TestSupport
import Testing

@Suite("The assertions in README.md")
struct ReadmeMachineTests {
  @Test("The assertions in README.md hold")
  func door() {
    XCTStateMachine(ElevatorDoor.stateMachine(.init()))
      .assert(
        when: .open(persons: 5), on: .closeButtonWasPressed, transitionTo: .closing(persons: 5)
      )
      .assertNoTransition(when: .open(persons: 10), on: .closeButtonWasPressed, because: .guard)
      .assert(when: .closing(persons: 1), execute: .close(speed: 2))
  }

  @Test("The traffic light in README.md matches the tested source and changes its state")
  func trafficLight() throws {
    let readme = String(decoding: try packageFile("README.md"), as: UTF8.self)
    let file = "Tests/NodesTests/TrafficLight.swift"
    let source = String(decoding: try packageFile(file), as: UTF8.self)
    #expect(readme.contains("```swift\n\(source)```\n"))
    XCTStateMachine(TrafficLight.stateMachine(.init()))
      .assert(when: .red, on: .timeIsUp, transitionTo: .green(cars: 0))
      .assert(when: .green(cars: 1), on: .carPassed, transitionTo: .green(cars: 2))
  }
}
