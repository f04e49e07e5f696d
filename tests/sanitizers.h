// Which sanitizer a test is built with, for the few that must know.
#pragma once

#if defined(__has_feature)
#define HOCKET_TEST_HAS_FEATURE(x) __has_feature(x)
#else
#define HOCKET_TEST_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HOCKET_TEST_HAS_FEATURE(address_sanitizer)
#define HOCKET_TEST_ASAN 1
#else
#define HOCKET_TEST_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || HOCKET_TEST_HAS_FEATURE(thread_sanitizer)
#define HOCKET_TEST_TSAN 1
#else
#define HOCKET_TEST_TSAN 0
#endif
