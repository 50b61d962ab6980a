"""What of the kernel's source is changed, each line with its reason: an exact clock, and speed."""

from pathlib import Path

from workloads.sockets import TCP_DRAIN

HZ = 250
TICK_NS = 10**9 // HZ  # the shortest time of its timers that are not exact, TCP's among them
OWN_CONTROLS = frozenset({"mltcp"})  # congestion controls that Linux does not have

# File, text in the source, text in its place. No text in the source: a new file.
EDITS = (
    # The clock counts nanoseconds, not units of 256 ns, and reading it takes 1 ns, not 256.
    ("arch/um/include/linux/time-internal.h",
     "#define TIMER_MULTIPLIER 256", "#define TIMER_MULTIPLIER 1"),
    # A timer fires at its nanosecond, not 500 ns later when the rounded clock was too early.
    ("arch/um/include/linux/time-internal.h",
     "#define TIMER_MIN_DELTA  500", "#define TIMER_MIN_DELTA  1"),
    ("arch/um/kernel/time.c", "\tdelta += 1;\n", ""),
    # tc hands over delays and bursts in ticks: of 1 ns, not of 64 ns (10 us became 9.984 us).
    ("include/net/pkt_sched.h", "PSCHED_SHIFT\t\t\t6", "PSCHED_SHIFT\t\t\t0"),
    # Randomness comes from the kernel's command line, not from the host, nor from the moment at
    # which one of its signals arrived, nor from the virtual clock, which is stirred in when an
    # interface comes up: a system call more at a program's start, and fq-codel hashes otherwise.
    ("arch/um/os-Linux/util.c",
     "return getrandom(buf, len, flags);", "memset(buf, 0, len);\n\treturn len;"),
    ("drivers/char/random.c", "#include <asm/io.h>\n",
     "#include <asm/io.h>\n\n#undef random_get_entropy\n#define random_get_entropy() 0UL\n"),
    ("kernel/irq/handle.c", "\tadd_interrupt_randomness(desc->irq_data.irq);\n", ""),
    # TCP's shortest timers are two ticks: 8 ms as on Debian's own kernel, not 20 ms.
    ("arch/um/Kconfig", "config HZ\n\tint\n\tdefault 100", f"config HZ\n\tint\n\tdefault {HZ}"),
    # TCP tries at once again when its host's own queue is full, and no time passes meanwhile: the
    # queue would stay full for ever. After a thousand vain tries at one instant, 1 us passes.
    ("net/ipv4/tcp_output.c", "#include <net/tcp.h>\n",
     "#include <net/tcp.h>\n#include <linux/delay.h>\n#include <linux/interrupt.h>\n"),
    ("net/ipv4/tcp_output.c", "\tif (unlikely(err > 0)) {\n\t\ttcp_enter_cwr(sk);\n", """\
\t{
\t\tstatic unsigned int vain;

\t\tvain = err > 0 ? vain + 1 : 0;
\t\tif (vain > 1000 && current == this_cpu_ksoftirqd()) {
\t\t\tvain = 0;
\t\t\tndelay(1000);
\t\t}
\t}
\tif (unlikely(err > 0)) {
\t\ttcp_enter_cwr(sk);
"""),
    # A receiver may have the kernel drop its next bytes as they arrive, by the code and at the
    # moment that a reader would run who reads at once: what TCP offers and acknowledges is the
    # same, and nobody is woken for each packet.
    ("include/linux/tcp.h", "\tstruct saved_syn *saved_syn;\n",
     "\tstruct saved_syn *saved_syn;\n\tu32\tdrain;\t/* bytes to drop as they arrive */\n"),
    ("include/net/tcp.h", "void tcp_data_ready(struct sock *sk);\n",
     "void tcp_data_ready(struct sock *sk);\nvoid tcp_drain(struct sock *sk);\n"),
    ("net/ipv4/tcp.c", "EXPORT_SYMBOL(tcp_read_sock);\n", """\
EXPORT_SYMBOL(tcp_read_sock);

static int tcp_drop_bytes(read_descriptor_t *desc, struct sk_buff *skb,
\t\t\t  unsigned int offset, size_t len)
{
\tsize_t dropped = min(len, desc->count);

\tdesc->count -= dropped;
\treturn dropped;
}

void tcp_drain(struct sock *sk)
{
\tread_descriptor_t desc = { .count = tcp_sk(sk)->drain };

\tif (!desc.count || skb_queue_empty(&sk->sk_receive_queue))
\t\treturn;
\ttcp_read_sock(sk, &desc, tcp_drop_bytes);
\ttcp_sk(sk)->drain = desc.count;
\tif (!desc.count)
\t\ttcp_data_ready(sk);
}
"""),
    ("net/ipv4/tcp.c", "\tcase TCP_THIN_LINEAR_TIMEOUTS:\n\t\tif (val < 0 || val > 1)\n", f"""\
\tcase {TCP_DRAIN}:
\t\ttp->drain = max(val, 0);
\t\ttcp_drain(sk);
\t\tbreak;
\tcase TCP_THIN_LINEAR_TIMEOUTS:
\t\tif (val < 0 || val > 1)
"""),
    ("net/ipv4/tcp_ipv4.c", "\t\ttcp_rcv_established(sk, skb);\n",
     "\t\ttcp_rcv_established(sk, skb);\n\t\ttcp_drain(sk);\n"),
    ("net/ipv4/tcp_input.c", "void tcp_data_ready(struct sock *sk)\n{\n", """\
void tcp_data_ready(struct sock *sk)
{
\tif (tcp_sk(sk)->drain && !sock_flag(sk, SOCK_DONE))
\t\treturn;
"""),
    # Who listens at a port of the kernel's choice gets the first free one and not a drawn one: of
    # two ranks on a host, Gloo lets the one with the larger port call the other.
    ("net/ipv4/inet_connection_sock.c", "\toffset = get_random_u32_below(remaining);\n",
     "\toffset = 0;\n"),
    # Code and data lie within 2 GiB, and nothing is loaded later: 4 to 8 % less processor time.
    # The kernel is 151 pages smaller by that. TCP's largest buffers go by what is free at boot, and
    # count without them: results are those of before.
    ("arch/um/Makefile", "KBUILD_CFLAGS += -mcmodel=large", "KBUILD_CFLAGS += -mcmodel=small"),
    ("net/ipv4/tcp.c", "\tunsigned long limit = nr_free_buffer_pages() / 16;",
     "\tunsigned long limit = (nr_free_buffer_pages() - 151) / 16;"),
    ("net/ipv4/tcp.c", "\tlimit = nr_free_buffer_pages() << (PAGE_SHIFT - 7);",
     "\tlimit = (nr_free_buffer_pages() - 151) << (PAGE_SHIFT - 7);"),
    # A congestion control for training jobs, which Linux does not have; who does not choose it
    # does not meet it.
    ("net/ipv4/tcp_mltcp.c", "", Path(__file__).with_name("tcp_mltcp.c").read_text()),
    ("net/ipv4/Makefile", "obj-$(CONFIG_TCP_CONG_CUBIC) += tcp_cubic.o\n",
     "obj-$(CONFIG_TCP_CONG_CUBIC) += tcp_cubic.o\nobj-y += tcp_mltcp.o\n"),
)  # fmt: skip
