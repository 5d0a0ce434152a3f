import PipeJournal
import PipeSupervision
import Testing

@Suite("The wording of backup errors")
struct BackupErrorTests {
  @Test(
    "Each error names the file or the topology, the reason and a remedy",
    arguments: [
      (
        .notNow(topology: "shop", reason: "another change is in progress"),
        "topology 'shop' cannot be backed up now: another change is in progress"
      ),
      (
        .severalHosts(topology: "shop"),
        "topology 'shop' runs with a deployment file, and only topologies on one host can be backed up; stop "
          + "it with 'orchestrator down -p shop', and copy the journals"
      ),
      (
        .notPaused(nodes: ["door"], limit: "500 ms"),
        "node 'door' could not be paused within 500 ms; the nodes continue; check for a blocked device or "
          + "disk, and try again"
      ),
      (
        .notPaused(nodes: ["a", "b", "c", "d", "e"], limit: "500 ms"),
        "nodes 'a', 'b', 'c' and 2 more could not be paused within 500 ms; the nodes continue; check for a "
          + "blocked device or disk, and try again"
      ),
      (
        .notPaused(nodes: [], limit: "500 ms"),
        "the journals could not be read within 500 ms while the nodes were paused; the nodes continue; try "
          + "again"
      ),
      (
        .journal(node: "door", .missing(path: "/j", node: "door")),
        "node 'door' cannot be backed up: \(JournalError.missing(path: "/j", node: "door"))"
      ),
      (
        .unwritable(file: "/b.tar", reason: "Permission denied"),
        "the backup '/b.tar' cannot be written: Permission denied; the nodes continue"
      ),
      (
        .noSpace(file: "/b.tar", required: 20 << 20, available: 3 << 20),
        "the backup '/b.tar' needs 20 MiB, and its disk has 3 MiB left; free disk space, or write the backup "
          + "to another disk"
      ),
      (
        .noSpace(file: "/b.tar", required: nil, available: nil),
        "the backup '/b.tar' cannot be written: the disk is full; free disk space, or write the backup to "
          + "another disk; the nodes continue"
      ),
      (
        .otherFile(file: "/b.tar"),
        "'/b.tar' exists and is not a backup; remove it, or choose another file"
      ),
      (
        .unreadable(file: "/b.tar", reason: "Permission denied"),
        "the backup '/b.tar' cannot be read: Permission denied"
      ),
      (.notABackup(file: "/b.tar"), "'/b.tar' is not a backup of 'orchestrator backup'"),
      (
        .incomplete(file: "/b.tar"),
        "the backup '/b.tar' is incomplete: the file was cut off; nothing was restored; use another copy"
      ),
      (
        .damaged(file: "/b.tar", entry: "journals/door.sqlite"),
        "the backup '/b.tar' is damaged: 'journals/door.sqlite' differs from its recorded hash; nothing was "
          + "restored; use another copy"
      ),
      (
        .otherVersion(file: "/b.tar", found: 9),
        "the backup '/b.tar' has format version 9, and this program reads version 1; use the version of "
          + "PipeRuntime that made the backup"
      ),
      (
        .otherTopology(file: "/b.tar", found: "shop", expected: "lift"),
        "the backup '/b.tar' is of topology 'shop', not of 'lift'; nothing was restored"
      ),
      (
        .journalsExist(topology: "shop", nodes: ["door", "till"]),
        "topology 'shop' has journals of nodes 'door', 'till', which the backup would replace; nothing was "
          + "restored; if they are not required any more, delete them with 'orchestrator reset --all -p shop'"
      ),
      (
        .topologyFileExists(path: "/d/shop.yaml"),
        "'/d/shop.yaml' exists and differs from the topology file of the backup; nothing was restored; choose "
          + "another directory"
      ),
    ] as [(BackupError, String)])
  func wording(error: BackupError, text: String) {
    #expect(error.description == text)
  }
}
