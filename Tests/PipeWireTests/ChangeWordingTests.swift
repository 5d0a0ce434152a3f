import PipeWire
import Testing

@Suite("The wording of a plan of changes")
struct ChangeWordingTests {
  @Test(
    "Each difference between a process and the wanted process is named",
    arguments: [
      (.program(wanted: "/bin/cat"), "its program is now '/bin/cat'"),
      (.host(wanted: "left"), "its carrier node is now 'left'"),
      (.host(wanted: nil), "it now has its own process"), (.build, "its program was rebuilt"),
      (.place(wanted: "127.0.0.4"), "the address of its place is now 127.0.0.4"),
      (.hosted, "its machine, parameters, durability or journal limits were changed"),
      (.environment, "its environment was changed"),
      (.directory, "its working directory was changed"), (.pipes, "its pipes were changed"),
      (.composites, "its composites were changed"),
    ] as [(ProcessRecord.Difference, String)])
  func differences(difference: ProcessRecord.Difference, text: String) {
    #expect(difference.description == text)
  }

  @Test(
    "The effect of a change on a node is shown with its reason",
    arguments: [
      (.starts, "starts"), (.stops, "stops"),
      (.restarts(.launch(.build)), "restarts: its program was rebuilt"),
      (.startsAgain(.watched), "starts again: the watched nodes were changed"),
      (
        .staysStopped(.host("left")),
        "stays stopped until started manually: carrier node 'left' restarts"
      ),
      (.updatedInPlace([.logs]), "logs differ, updated without a restart"),
      (
        .startsAgain(.supervision([.restart, .timeouts])),
        "starts again: restart policy and timeouts differ"
      ),
      (.updatedInPlace([.dependencies]), "depends_on differs, updated without a restart"),
      (.unchanged, "unchanged"),
    ] as [(TopologyChange.Fate, String)])
  func fates(fate: TopologyChange.Fate, text: String) {
    #expect(fate.description == text)
  }

  @Test("A change of no node is reported as nothing to change")
  func nothing() { #expect(TopologyChange(entries: []).summary == "nothing to change") }
}
