import PipeJournal
import Testing

@Suite("The wording of journal errors")
struct JournalErrorTests {
  @Test(
    "Each error names the journal, the reason and a remedy",
    arguments: [
      (
        .missing(path: "/j", node: "door"),
        "node 'door' has no journal: no such file '/j'; the durability of the node is 'none', or the node has "
          + "never run, or was reset"
      ),
      (
        .inaccessible(path: "/j", node: "door", reason: "Permission denied"),
        "the journal '/j' cannot be used: Permission denied; correct the problem, and start the node again"
      ),
      (
        .full(path: "/j"),
        "the journal '/j' cannot be written: the disk is full; no accepted event is lost; free disk space, and "
          + "the node continues"
      ),
      (
        .damaged(path: "/j", node: "door", reason: "the file is empty"),
        "the journal '/j' is damaged: the file is empty; restore a copy of the journal, or reset the node with "
          + "'orchestrator reset door'"
      ),
      (
        .mismatch(path: "/j", node: "door", attribute: "machine", found: "Motor", expected: "Door"),
        "the journal '/j' belongs to machine 'Motor', not to 'Door'; correct the topology, or reset the node "
          + "with 'orchestrator reset door'"
      ),
      (
        .undecodable(path: "/j", node: "door", problem: "state 'ajar'"),
        "the journal '/j' was written by another version of the machine: state 'ajar'; run that version, or "
          + "reset the node with 'orchestrator reset door'"
      ),
      (
        .stateTooLarge(path: "/j", node: "door", byteCount: 9),
        "the journal '/j' has a state of 9 bytes as JSON, which exceeds the limit of a message; reset the node "
          + "with 'orchestrator reset door'"
      ),
      (
        .locked(path: "/j", pid: 7),
        "the journal '/j' is in use by process 7, an earlier incarnation of the node; end this process first"
      ),
      (
        .superseded(path: "/j", incarnation: 7, by: 8),
        "the journal '/j' belongs to incarnation 8 of the node, so incarnation 7 must end; if another "
          + "orchestrator runs the topology with the same 'journals', end one of the orchestrators"
      ),
      (.failed(path: "/j", reason: "I/O error"), "the journal '/j': I/O error"),
    ] as [(JournalError, String)])
  func wording(error: JournalError, text: String) {
    #expect(error.description == text)
  }
}
