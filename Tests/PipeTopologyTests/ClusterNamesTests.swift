import PipeTopology
import Testing

@Suite("Names in a cluster")
struct ClusterNamesTests {
  @Test(
    "An object's name joins the topology's and the process's names as a DNS label",
    arguments: [
      ("hall", "door", "hall-door"), ("Hall.2", "Motor_2", "hall-2-motor-2"),
      ("hall_", "door-_", "hall-door"), ("hall", "2", "hall-2"),
    ])
  func names(topology: String, process: String, name: String) {
    #expect(ClusterNames(topology: topology).objectName(of: process) == name)
  }

  @Test("A long name is cut and gets a hash of the whole name")
  func long() {
    let names = ClusterNames(topology: String(repeating: "t", count: 41))
    let first = names.objectName(of: String(repeating: "n", count: 40) + "1")
    let second = names.objectName(of: String(repeating: "n", count: 40) + "2")
    #expect(first.utf8.count == 52 && second.utf8.count == 52 && first != second)
    #expect(first == String(repeating: "t", count: 41) + "-n-" + "d8c905bf")
    // The longest name that is not cut.
    let short = ClusterNames(topology: "hall").objectName(of: String(repeating: "n", count: 41))
    #expect(short == "hall-" + String(repeating: "n", count: 41))
  }
}
