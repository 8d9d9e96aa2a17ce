//! Raw data in, out, and both ways.

use asyncsteps_core::{AsyncSteps, StepResult};
use asyncsteps_executor::{Functions, RequestSteps};
use serde_json::json;

use super::template;

/// The period of the bytes that `download` gives.
const PERIOD: u8 = 251;

/// How many bytes `download` writes at once: whole periods, about 32 KiB.
const CHUNK: usize = 130 * PERIOD as usize;

/// Gives the functions of `conform.main` with raw data.
pub(super) fn define(functions: &mut Functions) {
    functions
        .add("upload", &template(upload))
        .add("download", &template(download))
        .add("pipe", &template(pipe));
}

fn upload(asi: &mut AsyncSteps) -> StepResult {
    let mut input = asi.raw_input()?;
    asi.await_(async move {
        let (mut size, mut sum) = (0_u64, 0_u64);
        while let Some(chunk) = input.read().await? {
            size += chunk.len() as u64;
            sum += chunk.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        }
        Ok::<_, asyncsteps_core::Error>((size, sum % 65_536))
    });
    asi.add(|asi, (size, sum): (u64, u64)| {
        let (name, n): (String, i64) = (asi.param("name")?, asi.param("n")?);
        asi.reply(json!({ "size": size, "sum": sum, "name": name, "n": n }))
    });
    Ok(())
}

fn download(asi: &mut AsyncSteps) -> StepResult {
    let (n, status): (i64, u16) = (asi.param("n")?, asi.param("status")?);
    let Ok(mut left) = usize::try_from(n) else {
        return asi.error("MyError", "Negative size");
    };
    asi.head_mut()?.set_status(status)?;
    let mut output = asi.raw_output("application/x-conform")?;
    asi.await_(async move {
        let chunk: bytes::Bytes = (0..PERIOD).cycle().take(CHUNK).collect();
        while left > 0 {
            let part = chunk.slice(..left.min(CHUNK));
            left -= part.len();
            output.write(part).await?;
        }
        Ok::<_, asyncsteps_core::Error>(())
    });
    Ok(())
}

fn pipe(asi: &mut AsyncSteps) -> StepResult {
    let add: i64 = asi.param("add")?;
    // modulo 256, also for negative numbers
    let add = add.to_le_bytes()[0];
    let mut input = asi.raw_input()?;
    let mut output = asi.raw_output("application/octet-stream")?;
    asi.await_(async move {
        while let Some(chunk) = input.read().await? {
            let changed: Vec<u8> = chunk.iter().map(|byte| byte.wrapping_add(add)).collect();
            output.write(changed).await?;
        }
        Ok::<_, asyncsteps_core::Error>(())
    });
    Ok(())
}
