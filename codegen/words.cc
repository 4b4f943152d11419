#include "farcall/codegen/words.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace farcall::codegen {
namespace {

// What flatc 2.0 escapes (idl_gen_cpp.cpp), which must be this very list: types keep flatc's
// spelling.
constexpr std::string_view kFlatcKeywords =
    "alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor "
    "bool break case catch char char16_t char32_t class compl concept const constexpr const_cast "
    "continue co_await co_return co_yield decltype default delete do double dynamic_cast else "
    "enum explicit export extern false float for friend goto if import inline int long module "
    "mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast requires return short signed sizeof static static_assert "
    "static_cast struct switch synchronized template this thread_local throw true try typedef "
    "typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq";

constexpr std::string_view kLaterKeywords = "char8_t consteval constinit";

// What <flatbuffers/flatbuffers.h> and <boost/asio.hpp> define on Linux with g++ 12, as far as
// somebody might name a message or a method so: no name with an underscore among capitals, except a
// few common ones. Macros that expand to themselves (EPOLLIN) do no harm and are not here.
constexpr std::string_view kMacros =
    "ACCESSPERMS ALLPERMS B0 B1000000 B110 B115200 B1152000 B1200 B134 B150 B1500000 B1800 B19200 "
    "B200 B2000000 B230400 B2400 B2500000 B300 B3000000 B3500000 B38400 B4000000 B460800 B4800 "
    "B50 B500000 B57600 B576000 B600 B75 B921600 B9600 BIG_ENDIAN BRKINT BS0 BS1 BSDLY BUFSIZ "
    "BYTE_ORDER CBAUD CBAUDEX CBRK CCEQ CDISCARD CDSUSP CEOF CEOL CEOT CERASE CFLUSH CHAR_BIT "
    "CHAR_MAX CHAR_MIN CIBAUD CINTR CKILL CLNEXT CLOCAL CLOCKS_PER_SEC CMIN CMSPAR CQUIT CR0 CR1 "
    "CR2 CR3 CRDLY CREAD CREPRINT CRPRNT CRTSCTS CS5 CS6 CS7 CS8 CSIGNAL CSIZE CSTART CSTATUS "
    "CSTOP CSTOPB CSUSP CTIME CTRL CWERASE DEFFILEMODE E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EADV "
    "EAFNOSUPPORT EAGAIN EALREADY EBADE EBADF EBADFD EBADMSG EBADR EBADRQC EBADSLT EBFONT EBUSY "
    "ECANCELED ECHILD ECHO ECHOCTL ECHOE ECHOK ECHOKE ECHONL ECHOPRT ECHRNG ECOMM ECONNABORTED "
    "ECONNREFUSED ECONNRESET EDEADLK EDEADLOCK EDESTADDRREQ EDOM EDOTDOT EDQUOT EEXIST EFAULT "
    "EFBIG EHOSTDOWN EHOSTUNREACH EHWPOISON EIDRM EILSEQ EINPROGRESS EINTR EINVAL EIO EISCONN "
    "EISDIR EISNAM EKEYEXPIRED EKEYREJECTED EKEYREVOKED EL2HLT EL2NSYNC EL3HLT EL3RST ELIBACC "
    "ELIBBAD ELIBEXEC ELIBMAX ELIBSCN ELNRNG ELOOP EMEDIUMTYPE EMFILE EMLINK EMSGSIZE EMULTIHOP "
    "ENAMETOOLONG ENAVAIL ENETDOWN ENETRESET ENETUNREACH ENFILE ENOANO ENOBUFS ENOCSI ENODATA "
    "ENODEV ENOENT ENOEXEC ENOKEY ENOLCK ENOLINK ENOMEDIUM ENOMEM ENOMSG ENONET ENOPKG "
    "ENOPROTOOPT ENOSPC ENOSR ENOSTR ENOSYS ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTNAM "
    "ENOTRECOVERABLE ENOTSOCK ENOTSUP ENOTTY ENOTUNIQ ENXIO EOF EOPNOTSUPP EOVERFLOW EOWNERDEAD "
    "EPERM EPFNOSUPPORT EPIPE EPROTO EPROTONOSUPPORT EPROTOTYPE ERANGE EREMCHG EREMOTE EREMOTEIO "
    "ERESTART ERFKILL EROFS ESHUTDOWN ESOCKTNOSUPPORT ESPIPE ESRCH ESRMNT ESTALE ESTRPIPE ETIME "
    "ETIMEDOUT ETOOMANYREFS ETXTBSY EUCLEAN EUNATCH EUSERS EWOULDBLOCK EXDEV EXFULL EXIT_FAILURE "
    "EXIT_SUCCESS EXTA EXTB EXTPROC FAPPEND FASYNC FF0 FF1 FFDLY FFSYNC FIOASYNC FIOCLEX "
    "FIOGETOWN FIONBIO FIONCLEX FIONREAD FIOQSIZE FIOSETOWN FLUSHO FNDELAY FNONBLOCK F_OK HUPCL "
    "ICANON ICRNL IEXTEN IFHWADDRLEN IFNAMSIZ IGNBRK IGNCR IGNPAR IMAXBEL INFINITY INLCR INPCK "
    "INT_MAX INT_MIN ISIG ISTRIP IUCLC IUTF8 IXANY IXOFF IXON LC_ALL LC_ALL_MASK LITTLE_ENDIAN "
    "LOCKABLE LONG_BIT LONG_LONG_MAX LONG_LONG_MIN LONG_MAX LONG_MIN MAXFLOAT MINSIGSTKSZ "
    "NAME_MAX NAN NCC NCCS NFDBITS NGREG NL0 NL1 NLDLY NOFLSH NSIG NULL NZERO OCRNL OFDEL OFILL "
    "OLCUC ONLCR ONLRET ONOCR OPOST PARENB PARMRK PARODD PATH_MAX PENDIN POLLERR POLLHUP POLLIN "
    "POLLMSG POLLNVAL POLLOUT POLLPRI POLLRDBAND POLLRDHUP POLLRDNORM POLLREMOVE POLLWRBAND "
    "POLLWRNORM RAND_MAX R_OK SEEK_CUR SEEK_DATA SEEK_END SEEK_HOLE SEEK_SET SIGABRT SIGALRM "
    "SIGBUS SIGCHLD SIGCLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGIOT SIGKILL SIGPIPE "
    "SIGPOLL SIGPROF SIGPWR SIGQUIT SIGRTMAX SIGRTMIN SIGSEGV SIGSTKFLT SIGSTKSZ SIGSTOP SIGSYS "
    "SIGTERM SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU "
    "SIGXFSZ SIG_ATOMIC_MAX SIG_ATOMIC_MIN SIG_BLOCK SIG_DFL SIG_ERR SIG_HOLD SIG_IGN SIG_SETMASK "
    "SIG_UNBLOCK SIOGIFINDEX SIZE_MAX SNAN SNANF SNANF128 SNANF32 SNANF32X SNANF64 SNANF64X SNANL "
    "SOMAXCONN TAB0 TAB1 TAB2 TAB3 TABDLY TCFLSH TCGETA TCGETS TCGETS2 TCGETX TCIFLUSH TCIOFF "
    "TCIOFLUSH TCION TCOFLUSH TCOOFF TCOON TCSADRAIN TCSAFLUSH TCSANOW TCSBRK TCSBRKP TCSETA "
    "TCSETAF TCSETAW TCSETS TCSETS2 TCSETSF TCSETSF2 TCSETSW TCSETSW2 TCSETX TCSETXF TCSETXW "
    "TCXONC TOSTOP UINT_MAX VDISCARD VEOF VEOL VEOL2 VERASE VINTR VKILL VLNEXT VMIN VQUIT "
    "VREPRINT VSTART VSTOP VSUSP VSWTC VT0 VT1 VTDLY VTIME VWERASE WCONTINUED WEOF WEXITED "
    "WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WNOHANG WNOWAIT WSTOPPED WSTOPSIG "
    "WTERMSIG WUNTRACED W_OK XCASE XTABS X_OK alloca assert assert_perror be16toh be32toh be64toh "
    "errno h_addr h_errno htobe16 htobe32 htobe64 htole16 htole32 htole64 ifa_broadaddr "
    "ifa_dstaddr ifc_buf ifc_req ifr_addr ifr_bandwidth ifr_broadaddr ifr_data ifr_dstaddr "
    "ifr_flags ifr_hwaddr ifr_ifindex ifr_map ifr_metric ifr_mtu ifr_name ifr_netmask ifr_newname "
    "ifr_qlen ifr_slave issubnormal le16toh le32toh le64toh math_errhandling offsetof "
    "pthread_cleanup_pop pthread_cleanup_pop_restore_np pthread_cleanup_push "
    "pthread_cleanup_push_defer_np s6_addr s6_addr16 s6_addr32 sa_handler sa_sigaction setjmp "
    "si_addr si_addr_lsb si_arch si_band si_call_addr si_fd si_int si_lower si_overrun si_pid "
    "si_pkey si_ptr si_status si_stime si_syscall si_timerid si_uid si_upper si_utime si_value "
    "sigev_notify_attributes sigev_notify_function sigmask sigsetjmp st_atime st_ctime st_mtime "
    "strdupa strndupa timeradd timerclear timercmp timerisset timersub va_arg va_copy va_end "
    "va_start";

// Macros only with some compilers, options or C libraries: good names elsewhere, so what we name
// avoids them, but what flatc names is not refused for them.
constexpr std::string_view kSometimesMacros =
    "I complex htonl htons i386 linux major makedev minor ntohl ntohs stderr stdin stdout unix";

using Words = std::set<std::string_view>;

Words Split(std::string_view text) {
  Words words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.insert(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

}  // namespace

bool IsEscapedByFlatc(std::string_view name) {
  static const Words words = Split(kFlatcKeywords);
  return words.contains(name);
}

bool IsLaterKeyword(std::string_view name) {
  static const Words words = Split(kLaterKeywords);
  return words.contains(name);
}

bool IsMacro(std::string_view name) {
  static const Words words = Split(kMacros);
  return words.contains(name);
}

bool IsSometimesMacro(std::string_view name) {
  static const Words words = Split(kSometimesMacros);
  return words.contains(name);
}

}  // namespace farcall::codegen
