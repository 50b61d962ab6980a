"""What an installed Giveway is: one package, `giveway`, with all our folders below `giveway/home/`.

Nobody's environment gets modules called `analysis` or `policies`: only the process of the command
has `giveway/home` on its path (giveway/launch.py), as a clone's has the repository. Everything
else about the project is in pyproject.toml.
"""

from pathlib import Path

from setuptools import find_packages, setup

CODE = ("basics", "topologies", "policies", "workloads", "analysis", "testbed")
DATA = ("experiments", "labs", "docker")  # files that are no code, and commands name
KINDS = (
    "csv",
    "html",
    "css",
    "mplstyle",
    "config",
    "sh",
    "c",
    "yaml",
    "json",
    "md",
    "patch",
    "Dockerfile",
)
FOR_TEACHERS = "teachers"  # the key to the labs: students install too
HOME = "giveway.home"
root = Path(__file__).parent
modules = [
    name
    for folder in CODE
    for name in (folder, *(f"{folder}.{inside}" for inside in find_packages(folder)))
]
kept = [path for name in DATA for path in (root / name, *(root / name).rglob("*")) if path.is_dir()]
data = [".".join(path.relative_to(root).parts) for path in kept if path.name != FOR_TEACHERS]
version = next(
    line.split('"')[1]
    for line in (root / "testbed" / "__init__.py").read_text().splitlines()
    if line.startswith("__version__")
)

if __name__ == "__main__":  # tests read the lists above
    setup(
        version=version,
        packages=["giveway", *(f"{HOME}.{name}" for name in [*modules, *data])],
        package_dir={f"{HOME}.{name}": name.replace(".", "/") for name in [*modules, *data]},
        package_data={"": [f"**/*.{kind}" for kind in KINDS]},
        exclude_package_data={f"{HOME}.labs": [f"{FOR_TEACHERS}/*"]},
    )
