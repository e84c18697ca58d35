// SPDX-License-Identifier: Apache-2.0
// Compiles where our declarations of UCP are those of its header; see test_ucx.py.
#include <ucp/api/ucp.h>

#include "transport/ucx/ucp.h"

namespace ours = lanecast::ucx;

#define SAME_PLACE(mine, field, theirs, their_field)                            \
  static_assert(offsetof(ours::mine, field) == offsetof(theirs, their_field) && \
                sizeof(ours::mine::field) == sizeof(theirs::their_field))

SAME_PLACE(ContextParams, field_mask, ucp_params_t, field_mask);
SAME_PLACE(ContextParams, features, ucp_params_t, features);
SAME_PLACE(ContextParams, estimated_num_eps, ucp_params_t, estimated_num_eps);
static_assert(ours::ContextParams::kFeatures == UCP_PARAM_FIELD_FEATURES);
static_assert(ours::ContextParams::kEstimatedEndpoints == UCP_PARAM_FIELD_ESTIMATED_NUM_EPS);
static_assert(ours::ContextParams::kTagFeature == UCP_FEATURE_TAG);
static_assert(ours::ContextParams::kWakeUpFeature == UCP_FEATURE_WAKEUP);
static_assert(ours::ContextParams::kActiveMessageFeature == UCP_FEATURE_AM);

SAME_PLACE(ContextAttributes, field_mask, ucp_context_attr_t, field_mask);
SAME_PLACE(ContextAttributes, memory_types, ucp_context_attr_t, memory_types);
static_assert(ours::ContextAttributes::kMemoryTypes == UCP_ATTR_FIELD_MEMORY_TYPES);
static_assert(ours::ContextAttributes::kCuda == UCS_MEMORY_TYPE_CUDA);
static_assert(ours::ContextAttributes::kRocm == UCS_MEMORY_TYPE_ROCM);

SAME_PLACE(WorkerParams, thread_mode, ucp_worker_params_t, thread_mode);
SAME_PLACE(WorkerParams, flags, ucp_worker_params_t, flags);
static_assert(ours::WorkerParams::kThreadMode == UCP_WORKER_PARAM_FIELD_THREAD_MODE);
static_assert(ours::WorkerParams::kFlags == UCP_WORKER_PARAM_FIELD_FLAGS);
static_assert(ours::WorkerParams::kSerialized == UCS_THREAD_MODE_SERIALIZED);
static_assert(ours::WorkerParams::kIgnoreRequestLeak == UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK);

SAME_PLACE(WorkerAttributes, address, ucp_worker_attr_t, address);
SAME_PLACE(WorkerAttributes, address_length, ucp_worker_attr_t, address_length);
static_assert(ours::WorkerAttributes::kAddress == UCP_WORKER_ATTR_FIELD_ADDRESS);

SAME_PLACE(EndpointParams, address, ucp_ep_params_t, address);
SAME_PLACE(EndpointParams, error_mode, ucp_ep_params_t, err_mode);
SAME_PLACE(EndpointParams, error_handler, ucp_ep_params_t, err_handler);
static_assert(ours::EndpointParams::kRemoteAddress == UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
static_assert(ours::EndpointParams::kErrorMode == UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
static_assert(ours::EndpointParams::kErrorHandler == UCP_EP_PARAM_FIELD_ERR_HANDLER);
static_assert(ours::EndpointParams::kPeerFailures == UCP_ERR_HANDLING_MODE_PEER);

SAME_PLACE(TagInfo, length, ucp_tag_recv_info_t, length);
SAME_PLACE(RequestParams, flags, ucp_request_param_t, flags);
SAME_PLACE(RequestParams, callback, ucp_request_param_t, cb);
SAME_PLACE(RequestParams, datatype, ucp_request_param_t, datatype);
SAME_PLACE(RequestParams, user_data, ucp_request_param_t, user_data);
SAME_PLACE(RequestParams, memory_type, ucp_request_param_t, memory_type);
SAME_PLACE(RequestParams, receive_info, ucp_request_param_t, recv_info);
SAME_PLACE(RequestParams, memory_handle, ucp_request_param_t, memh);
static_assert(ours::RequestParams::kMemoryType == UCP_OP_ATTR_FIELD_MEMORY_TYPE);
static_assert(ours::RequestParams::kMemoryHandle == UCP_OP_ATTR_FIELD_MEMH);
static_assert(UCS_MEMORY_TYPE_HOST == 0 && UCS_CONFIG_PRINT_CONFIG == 1);
static_assert(ours::RequestParams::kCallback == UCP_OP_ATTR_FIELD_CALLBACK);
static_assert(ours::RequestParams::kUserData == UCP_OP_ATTR_FIELD_USER_DATA);
static_assert(ours::RequestParams::kDatatype == UCP_OP_ATTR_FIELD_DATATYPE);
static_assert(ours::RequestParams::kFlags == UCP_OP_ATTR_FIELD_FLAGS);
static_assert(ours::RequestParams::kAlwaysCallsBack == UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
static_assert(ours::RequestParams::kBytes == ucp_dt_make_contig(1));
static_assert(ours::RequestParams::kVectors == UCP_DATATYPE_IOV);
static_assert(ours::RequestParams::kForceClose == UCP_EP_CLOSE_FLAG_FORCE);
static_assert(ours::RequestParams::kEagerCopied == (UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_COPY_HEADER));
static_assert(sizeof(ucp_dt_iov_t) == 2 * sizeof(void*) && offsetof(ucp_dt_iov_t, length) == sizeof(void*));

SAME_PLACE(MemoryParams, address, ucp_mem_map_params_t, address);
SAME_PLACE(MemoryParams, length, ucp_mem_map_params_t, length);
SAME_PLACE(MemoryParams, memory_type, ucp_mem_map_params_t, memory_type);
static_assert(ours::MemoryParams::kAddress == UCP_MEM_MAP_PARAM_FIELD_ADDRESS);
static_assert(ours::MemoryParams::kLength == UCP_MEM_MAP_PARAM_FIELD_LENGTH);
static_assert(ours::MemoryParams::kMemoryType == UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE);

SAME_PLACE(ActiveMessageHandler, id, ucp_am_handler_param_t, id);
SAME_PLACE(ActiveMessageHandler, callback, ucp_am_handler_param_t, cb);
SAME_PLACE(ActiveMessageHandler, argument, ucp_am_handler_param_t, arg);
static_assert(ours::ActiveMessageHandler::kId == UCP_AM_HANDLER_PARAM_FIELD_ID);
static_assert(ours::ActiveMessageHandler::kCallback == UCP_AM_HANDLER_PARAM_FIELD_CB);
static_assert(ours::ActiveMessageHandler::kArgument == UCP_AM_HANDLER_PARAM_FIELD_ARG);

static_assert(sizeof(ours::Status) == sizeof(ucs_status_t));
static_assert(ours::kInProgress == UCS_INPROGRESS && ours::kTruncated == UCS_ERR_MESSAGE_TRUNCATED);
static_assert(ours::kNoDevice == UCS_ERR_NO_DEVICE && ours::kUnreachable == UCS_ERR_UNREACHABLE);
static_assert(ours::kNotConnected == UCS_ERR_NOT_CONNECTED);
static_assert(ours::kCanceled == UCS_ERR_CANCELED && ours::kLeastStatus == UCS_ERR_LAST);
