"""The commands and the types of their options, as `--help` lists them, and arguments for each."""

import re
import subprocess
from typing import NamedTuple

from sluice_cli import SLUICE

# Small work for every command that does something; {files} and {folder} are the test's own.
ARGUMENTS = {
    ("codecs",): [],
    ("reduce",): ["--codec", "f32", "{files}"],
    ("bench", "codec"): ["--codec", "f32", "--count", "1000", "--repetitions", "7"],
    ("bench", "allreduce"): ["--codec", "f32", "-b", "4K", "-n", "1", "-w", "0", "--workers", "2"],
    ("bench", "lossless"): ["--codec", "lossless", "--density", "10%", "--overlap", "identical",
                            "--workers", "2", "--count", "1024", "--repetitions", "7"],
    ("generate",): ["--workers", "2", "--count", "100", "--out", "{folder}"],
    ("tables",): ["--bits", "2"],
}
FILES = [("codecs", "--json"), ("reduce", "--out"), ("reduce", "--json"), ("bench codec", "--json"),
         ("bench allreduce", "--json"), ("bench lossless", "--json"), ("bench lossless", "--svg"),
         ("generate", "--json"), ("tables", "--json")]
FOLDERS = [("reduce", "--dump-wire"), ("generate", "--out")]


class Command(NamedTuple):
    """A command: its words, its commands, and the type of each of its options."""

    words: tuple
    commands: list
    options: dict

    @property
    def name(self):
        return " ".join(self.words)


def described(words):
    """What `--help` says of a command."""
    text = subprocess.run([SLUICE, *words, "--help"], capture_output=True, text=True,
                          check=True).stdout
    sections = re.split(r"^(\w[\w ]*):\n", text, flags=re.MULTILINE)
    by_name = dict(zip(sections[1::2], sections[2::2]))
    commands = re.findall(r"^  (\w+)  +", by_name.get("Subcommands", ""), re.MULTILINE)
    options = {}
    for names, kind in re.findall(r"^  (-[\w,-]+)(?: ([A-Z]+))?", by_name["Options"], re.MULTILINE):
        options[names.split(",")[-1]] = kind
    return Command(tuple(words), commands, options)


def every_command(words=()):
    """All commands, the program itself first."""
    found = [described(words)]
    for name in found[0].commands:
        found += every_command((*words, name))
    return found
