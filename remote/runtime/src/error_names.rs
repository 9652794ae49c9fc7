//! Names and descriptions of the runtime's error codes. The names are those of the runtime's headers.

use crate::errors::ErrorCode;
use std::ffi::{CStr, c_char};

/// Description of an error code.
struct ErrorDescription {
    code: ErrorCode,
    /// Name in the runtime's headers.
    name: &'static CStr,
    /// One phrase for people.
    text: &'static CStr,
}

const fn error(code: ErrorCode, name: &'static CStr, text: &'static CStr) -> ErrorDescription {
    ErrorDescription { code, name, text }
}

/// All error codes, in order.
const ERRORS: [ErrorDescription; 138] = [
    error(0, c"cudaSuccess", c"no error"),
    error(1, c"cudaErrorInvalidValue", c"an argument is invalid"),
    error(2, c"cudaErrorMemoryAllocation", c"no memory is left"),
    error(
        3,
        c"cudaErrorInitializationError",
        c"the runtime could not be initialised",
    ),
    error(4, c"cudaErrorCudartUnloading", c"the driver is shutting down"),
    error(5, c"cudaErrorProfilerDisabled", c"the profiler is not in use"),
    error(
        6,
        c"cudaErrorProfilerNotInitialized",
        c"the profiler is not initialised",
    ),
    error(
        7,
        c"cudaErrorProfilerAlreadyStarted",
        c"the profiler is already running",
    ),
    error(
        8,
        c"cudaErrorProfilerAlreadyStopped",
        c"the profiler is already stopped",
    ),
    error(
        9,
        c"cudaErrorInvalidConfiguration",
        c"the grid or block of the launch is not possible",
    ),
    error(
        10,
        c"cudaErrorVersionTranslation",
        c"a value cannot be translated between versions",
    ),
    error(12, c"cudaErrorInvalidPitchValue", c"the pitch is invalid"),
    error(
        13,
        c"cudaErrorInvalidSymbol",
        c"the address is no variable of device code",
    ),
    error(16, c"cudaErrorInvalidHostPointer", c"the address is no host memory"),
    error(17, c"cudaErrorInvalidDevicePointer", c"the address is no device memory"),
    error(18, c"cudaErrorInvalidTexture", c"the texture is invalid"),
    error(
        19,
        c"cudaErrorInvalidTextureBinding",
        c"the binding of the texture is invalid",
    ),
    error(
        20,
        c"cudaErrorInvalidChannelDescriptor",
        c"the channel format is invalid",
    ),
    error(
        21,
        c"cudaErrorInvalidMemcpyDirection",
        c"the direction of the copy is invalid",
    ),
    error(
        22,
        c"cudaErrorAddressOfConstant",
        c"the address of a constant cannot be taken",
    ),
    error(23, c"cudaErrorTextureFetchFailed", c"a texture could not be read"),
    error(24, c"cudaErrorTextureNotBound", c"the texture is not bound"),
    error(25, c"cudaErrorSynchronizationError", c"a synchronisation failed"),
    error(26, c"cudaErrorInvalidFilterSetting", c"the filter mode is invalid"),
    error(27, c"cudaErrorInvalidNormSetting", c"the normalisation mode is invalid"),
    error(
        28,
        c"cudaErrorMixedDeviceExecution",
        c"device code and emulated code cannot be mixed",
    ),
    error(31, c"cudaErrorNotYetImplemented", c"the function is not implemented"),
    error(32, c"cudaErrorMemoryValueTooLarge", c"the memory value is too large"),
    error(34, c"cudaErrorStubLibrary", c"the loaded driver is a stub library"),
    error(
        35,
        c"cudaErrorInsufficientDriver",
        c"there is no CUDA driver, or it is older than the runtime",
    ),
    error(
        36,
        c"cudaErrorCallRequiresNewerDriver",
        c"the function needs a newer driver",
    ),
    error(37, c"cudaErrorInvalidSurface", c"the surface is invalid"),
    error(
        43,
        c"cudaErrorDuplicateVariableName",
        c"two variables have the same name",
    ),
    error(44, c"cudaErrorDuplicateTextureName", c"two textures have the same name"),
    error(45, c"cudaErrorDuplicateSurfaceName", c"two surfaces have the same name"),
    error(
        46,
        c"cudaErrorDevicesUnavailable",
        c"the device is in use or cannot be reached",
    ),
    error(
        49,
        c"cudaErrorIncompatibleDriverContext",
        c"the current context does not suit the runtime",
    ),
    error(52, c"cudaErrorMissingConfiguration", c"no launch configuration was set"),
    error(53, c"cudaErrorPriorLaunchFailure", c"an earlier launch failed"),
    error(
        65,
        c"cudaErrorLaunchMaxDepthExceeded",
        c"launches are nested too deeply",
    ),
    error(
        66,
        c"cudaErrorLaunchFileScopedTex",
        c"a kernel launched by the device uses a file's texture",
    ),
    error(
        67,
        c"cudaErrorLaunchFileScopedSurf",
        c"a kernel launched by the device uses a file's surface",
    ),
    error(
        68,
        c"cudaErrorSyncDepthExceeded",
        c"synchronisation is nested too deeply",
    ),
    error(
        69,
        c"cudaErrorLaunchPendingCountExceeded",
        c"too many launches of the device are pending",
    ),
    error(
        98,
        c"cudaErrorInvalidDeviceFunction",
        c"the address is no kernel of this program",
    ),
    error(100, c"cudaErrorNoDevice", c"there is no CUDA device"),
    error(101, c"cudaErrorInvalidDevice", c"the device number is invalid"),
    error(102, c"cudaErrorDeviceNotLicensed", c"the device has no license"),
    error(
        103,
        c"cudaErrorSoftwareValidityNotEstablished",
        c"the driver's validity check failed",
    ),
    error(127, c"cudaErrorStartupFailure", c"the runtime did not start"),
    error(
        200,
        c"cudaErrorInvalidKernelImage",
        c"the image of the kernel is invalid",
    ),
    error(201, c"cudaErrorDeviceUninitialized", c"the context is invalid"),
    error(
        205,
        c"cudaErrorMapBufferObjectFailed",
        c"the buffer object cannot be mapped",
    ),
    error(
        206,
        c"cudaErrorUnmapBufferObjectFailed",
        c"the buffer object cannot be unmapped",
    ),
    error(207, c"cudaErrorArrayIsMapped", c"the array is mapped"),
    error(208, c"cudaErrorAlreadyMapped", c"the resource is already mapped"),
    error(
        209,
        c"cudaErrorNoKernelImageForDevice",
        c"no code in the program runs on this device",
    ),
    error(210, c"cudaErrorAlreadyAcquired", c"the resource is already acquired"),
    error(211, c"cudaErrorNotMapped", c"the resource is not mapped"),
    error(
        212,
        c"cudaErrorNotMappedAsArray",
        c"the resource is not mapped as an array",
    ),
    error(
        213,
        c"cudaErrorNotMappedAsPointer",
        c"the resource is not mapped as a pointer",
    ),
    error(
        214,
        c"cudaErrorECCUncorrectable",
        c"memory has an error that cannot be corrected",
    ),
    error(
        215,
        c"cudaErrorUnsupportedLimit",
        c"the device does not support this limit",
    ),
    error(216, c"cudaErrorDeviceAlreadyInUse", c"another thread uses the context"),
    error(
        217,
        c"cudaErrorPeerAccessUnsupported",
        c"the devices cannot access each other's memory",
    ),
    error(218, c"cudaErrorInvalidPtx", c"the PTX text is invalid"),
    error(
        219,
        c"cudaErrorInvalidGraphicsContext",
        c"the graphics context is invalid",
    ),
    error(
        220,
        c"cudaErrorNvlinkUncorrectable",
        c"NVLink has an error that cannot be corrected",
    ),
    error(221, c"cudaErrorJitCompilerNotFound", c"the PTX compiler was not found"),
    error(
        222,
        c"cudaErrorUnsupportedPtxVersion",
        c"the version of the PTX text is too new",
    ),
    error(223, c"cudaErrorJitCompilationDisabled", c"the PTX compiler is disabled"),
    error(
        224,
        c"cudaErrorUnsupportedExecAffinity",
        c"the device does not support this execution affinity",
    ),
    error(
        225,
        c"cudaErrorUnsupportedDevSideSync",
        c"the PTX text synchronises in an unsupported way",
    ),
    error(226, c"cudaErrorContained", c"an error was contained"),
    error(227, c"cudaErrorInsufficientLoaderVersion", c"the loader is too old"),
    error(300, c"cudaErrorInvalidSource", c"the source of the kernel is invalid"),
    error(301, c"cudaErrorFileNotFound", c"the file was not found"),
    error(
        302,
        c"cudaErrorSharedObjectSymbolNotFound",
        c"a symbol of a shared library was not found",
    ),
    error(
        303,
        c"cudaErrorSharedObjectInitFailed",
        c"a shared library could not be initialised",
    ),
    error(
        304,
        c"cudaErrorOperatingSystem",
        c"a call of the operating system failed",
    ),
    error(400, c"cudaErrorInvalidResourceHandle", c"the handle is invalid"),
    error(401, c"cudaErrorIllegalState", c"the object is in the wrong state"),
    error(402, c"cudaErrorLossyQuery", c"the query would lose information"),
    error(500, c"cudaErrorSymbolNotFound", c"the name was not found"),
    error(600, c"cudaErrorNotReady", c"the work is not complete yet"),
    error(700, c"cudaErrorIllegalAddress", c"a kernel accessed an illegal address"),
    error(
        701,
        c"cudaErrorLaunchOutOfResources",
        c"the launch needs too many resources",
    ),
    error(702, c"cudaErrorLaunchTimeout", c"the launch exceeded the time limit"),
    error(
        703,
        c"cudaErrorLaunchIncompatibleTexturing",
        c"the launch uses textures in an incompatible way",
    ),
    error(
        704,
        c"cudaErrorPeerAccessAlreadyEnabled",
        c"peer access is already enabled",
    ),
    error(705, c"cudaErrorPeerAccessNotEnabled", c"peer access is not enabled"),
    error(
        708,
        c"cudaErrorSetOnActiveProcess",
        c"the device is already in use and cannot be changed",
    ),
    error(709, c"cudaErrorContextIsDestroyed", c"the context is destroyed"),
    error(710, c"cudaErrorAssert", c"a kernel's assertion failed"),
    error(711, c"cudaErrorTooManyPeers", c"too many peers are enabled"),
    error(
        712,
        c"cudaErrorHostMemoryAlreadyRegistered",
        c"the host memory is already registered",
    ),
    error(
        713,
        c"cudaErrorHostMemoryNotRegistered",
        c"the host memory is not registered",
    ),
    error(714, c"cudaErrorHardwareStackError", c"the device's stack is corrupt"),
    error(
        715,
        c"cudaErrorIllegalInstruction",
        c"a kernel executed an illegal instruction",
    ),
    error(
        716,
        c"cudaErrorMisalignedAddress",
        c"a kernel accessed a misaligned address",
    ),
    error(
        717,
        c"cudaErrorInvalidAddressSpace",
        c"a kernel accessed the wrong address space",
    ),
    error(718, c"cudaErrorInvalidPc", c"a kernel's program counter is invalid"),
    error(719, c"cudaErrorLaunchFailure", c"a kernel failed"),
    error(
        720,
        c"cudaErrorCooperativeLaunchTooLarge",
        c"the cooperative launch has too many blocks",
    ),
    error(
        721,
        c"cudaErrorTensorMemoryLeak",
        c"a kernel did not free its tensor memory",
    ),
    error(800, c"cudaErrorNotPermitted", c"the call is not permitted"),
    error(801, c"cudaErrorNotSupported", c"the call is not supported"),
    error(802, c"cudaErrorSystemNotReady", c"the system is not ready"),
    error(
        803,
        c"cudaErrorSystemDriverMismatch",
        c"the driver and the display driver differ in version",
    ),
    error(
        804,
        c"cudaErrorCompatNotSupportedOnDevice",
        c"the device does not support this compatibility mode",
    ),
    error(
        805,
        c"cudaErrorMpsConnectionFailed",
        c"there is no connection to the MPS server",
    ),
    error(806, c"cudaErrorMpsRpcFailure", c"a call of the MPS server failed"),
    error(807, c"cudaErrorMpsServerNotReady", c"the MPS server is not ready"),
    error(
        808,
        c"cudaErrorMpsMaxClientsReached",
        c"the MPS server has too many clients",
    ),
    error(
        809,
        c"cudaErrorMpsMaxConnectionsReached",
        c"the MPS server has too many connections",
    ),
    error(810, c"cudaErrorMpsClientTerminated", c"the MPS server ended the client"),
    error(
        811,
        c"cudaErrorCdpNotSupported",
        c"the device does not support dynamic parallelism",
    ),
    error(
        812,
        c"cudaErrorCdpVersionMismatch",
        c"the versions of dynamic parallelism differ",
    ),
    error(
        900,
        c"cudaErrorStreamCaptureUnsupported",
        c"the call is not permitted while a stream is captured",
    ),
    error(
        901,
        c"cudaErrorStreamCaptureInvalidated",
        c"an earlier error invalidated the capture",
    ),
    error(902, c"cudaErrorStreamCaptureMerge", c"two captures would be merged"),
    error(
        903,
        c"cudaErrorStreamCaptureUnmatched",
        c"the stream does not belong to the capture",
    ),
    error(
        904,
        c"cudaErrorStreamCaptureUnjoined",
        c"a captured stream was not joined",
    ),
    error(
        905,
        c"cudaErrorStreamCaptureIsolation",
        c"work of the capture depends on work outside",
    ),
    error(
        906,
        c"cudaErrorStreamCaptureImplicit",
        c"the default stream cannot be used during a capture",
    ),
    error(907, c"cudaErrorCapturedEvent", c"the event belongs to a capture"),
    error(
        908,
        c"cudaErrorStreamCaptureWrongThread",
        c"another thread began the capture",
    ),
    error(909, c"cudaErrorTimeout", c"the time limit is exceeded"),
    error(
        910,
        c"cudaErrorGraphExecUpdateFailure",
        c"the executable graph cannot be updated like this",
    ),
    error(911, c"cudaErrorExternalDevice", c"an external device failed"),
    error(
        912,
        c"cudaErrorInvalidClusterSize",
        c"the size of the cluster is invalid",
    ),
    error(913, c"cudaErrorFunctionNotLoaded", c"the function is not loaded"),
    error(
        914,
        c"cudaErrorInvalidResourceType",
        c"the type of the resource is invalid",
    ),
    error(
        915,
        c"cudaErrorInvalidResourceConfiguration",
        c"the configuration of the resource is invalid",
    ),
    error(917, c"cudaErrorStreamDetached", c"the stream is detached"),
    error(
        918,
        c"cudaErrorGraphRecaptureFailure",
        c"the graph could not be captured again",
    ),
    error(919, c"cudaErrorFabricNotReady", c"the fabric is not ready"),
    error(999, c"cudaErrorUnknown", c"the error is unknown"),
];

/// Returns the description of an error code, or `None` for an unknown code.
fn find_description(code: ErrorCode) -> Option<&'static ErrorDescription> {
    let index = ERRORS.binary_search_by_key(&code, |error| error.code).ok()?;
    ERRORS.get(index)
}

/// Name and text of unknown codes.
const UNKNOWN: &CStr = c"unrecognized error code";

/// `cudaGetErrorName`.
pub fn name(code: ErrorCode) -> *const c_char {
    find_description(code).map_or(UNKNOWN, |error| error.name).as_ptr()
}

/// `cudaGetErrorString`.
pub fn description(code: ErrorCode) -> *const c_char {
    find_description(code).map_or(UNKNOWN, |error| error.text).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_are_in_order() {
        assert!(ERRORS.is_sorted_by_key(|error| error.code));
        assert_eq!(find_description(98).unwrap().name, c"cudaErrorInvalidDeviceFunction");
        assert!(find_description(11).is_none());
    }
}
