//! The names of operations of IREE's HAL.

/// Names of operations by their number.
const NAMES: [(u64, &str); 40] = [
    (1, "device_trim"),
    (2, "device_query_i64"),
    (6, "device_create_channel"),
    (7, "device_create_command_buffer"),
    (8, "device_create_event"),
    (9, "device_create_executable_cache"),
    (10, "device_import_file"),
    (11, "device_create_semaphore"),
    (13, "device_queue_alloca"),
    (14, "device_queue_dealloca"),
    (15, "device_queue_fill"),
    (16, "device_queue_update"),
    (17, "device_queue_copy"),
    (18, "device_queue_read"),
    (19, "device_queue_write"),
    (20, "device_queue_host_call"),
    (21, "device_queue_dispatch"),
    (22, "device_queue_execute"),
    (23, "device_queue_flush"),
    (100, "allocator_trim"),
    (101, "allocator_query_memory_heaps"),
    (102, "allocator_allocate_buffer"),
    (103, "allocator_import_buffer"),
    (104, "allocator_export_buffer"),
    (200, "buffer_map_range"),
    (201, "buffer_unmap_range"),
    (202, "buffer_invalidate_range"),
    (203, "buffer_flush_range"),
    (300, "command_buffer_begin"),
    (301, "command_buffer_end"),
    (304, "command_buffer_execution_barrier"),
    (305, "command_buffer_signal_event"),
    (306, "command_buffer_reset_event"),
    (307, "command_buffer_wait_events"),
    (308, "command_buffer_advise_buffer"),
    (312, "command_buffer_collective"),
    (400, "executable_cache_infer_format"),
    (401, "executable_cache_can_prepare_format"),
    (402, "executable_cache_prepare_executable"),
    (501, "executable_export_info"),
];

/// Returns the name of an operation, or its number.
pub(super) fn operation_name(operation: u64) -> String {
    let known = NAMES.iter().find(|(number, _)| *number == operation);
    known.map_or_else(|| format!("operation {operation}"), |(_, name)| (*name).to_owned())
}
