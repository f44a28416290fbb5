from pathlib import Path

from pcfgnat.training.record.logs import CsvLog


def test_rows_beyond_the_step_and_half_rows_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    log = CsvLog(path, 0)
    for step in (1, 2, 3):
        log.add({"step": step, "loss": step / 3})
    with path.open("a", encoding="utf-8") as file:
        file.write("1")  # a process was killed while it wrote step 10
    again = CsvLog(path, 2)
    again.add({"step": 3, "loss": 0.5})
    assert path.read_text(encoding="utf-8") == f"step,loss\n1,{1 / 3!r}\n2,{2 / 3!r}\n3,0.5\n"
    assert again.column("loss") == ([1.0, 2.0, 3.0], [1 / 3, 2 / 3, 0.5])


def test_new_columns_may_come_and_old_ones_may_be_missing(tmp_path: Path) -> None:
    log = CsvLog(tmp_path / "log.csv", 0)
    log.add({"step": 1, "loss": 1.0})
    log.add({"step": 2, "loss": 2.0, "nll": 0.5})
    log.add({"step": 3, "loss": 3.0})
    text = (tmp_path / "log.csv").read_text(encoding="utf-8")
    assert text == "step,loss,nll\n1,1.0,\n2,2.0,0.5\n3,3.0,\n"
    assert CsvLog(tmp_path / "log.csv", 9).column("nll") == ([2.0], [0.5])


def test_a_file_without_a_row(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(b"")
    log = CsvLog(tmp_path / "log.csv", 5)
    log.add({"step": 6, "loss": 1.0})
    assert (tmp_path / "log.csv").read_text(encoding="utf-8") == "step,loss\n6,1.0\n"
