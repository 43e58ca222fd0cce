// SPDX-License-Identifier: GPL-2.0

//! Writes the fuzzer's first corpus into a directory.

use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    let Some(directory) = env::args_os().nth(1) else {
        return Err(io::Error::other("usage: seeds DIRECTORY"));
    };
    fs::create_dir_all(&directory)?;
    for (name, seed) in logic_fuzz::seeds::all() {
        fs::write(Path::new(&directory).join(name), seed.encode())?;
    }
    Ok(())
}
