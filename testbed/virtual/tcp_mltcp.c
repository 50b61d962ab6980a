// SPDX-License-Identifier: GPL-2.0-only
/* MLTCP on Reno: who has sent more of an iteration's bytes grows faster, so that equal training
 * jobs slide apart. After "MLTCP: A Distributed Technique to Approximate Centralized Flow
 * Scheduling For Machine Learning" (HotNets 2024), whose window grows by F(share) times Reno's.
 *
 * Nobody tells it what an iteration is: the pauses do, in which a job computes.
 */

#include <linux/module.h>
#include <net/tcp.h>

/* F(share) = 0.25 + 1.75 * share, in hundredths; Reno's is 1. */
#define MLTCP_INTERCEPT	25U
#define MLTCP_SLOPE	175U
#define MLTCP_ONE	100U

/* What is less than a first window between two pauses is a message, not an iteration. */
#define MLTCP_LEAST(tp)	(TCP_INIT_CWND * (tp)->mss_cache)

struct mltcp {
	u64	first;	/* bytes acknowledged when this iteration began */
	u64	whole;	/* bytes of the last whole iteration, 0 until there was one */
	u32	pause;	/* that ended it, in jiffies */
};

static void mltcp_init(struct sock *sk)
{
	struct mltcp *ca = inet_csk_ca(sk);

	memset(ca, 0, sizeof(*ca));
	ca->first = tcp_sk(sk)->bytes_acked;
}

/* Called before the first byte after everything was acknowledged. */
static void mltcp_cwnd_event_tx_start(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct mltcp *ca = inet_csk_ca(sk);
	u64 sent = tp->bytes_acked - ca->first;
	u32 pause = tcp_jiffies32 - tp->lsndtime;

	if (!pause)
		return;
	if (sent < MLTCP_LEAST(tp)) {
		ca->first = tp->bytes_acked;
		return;
	}
	/* Pauses within an iteration are shorter than half of those between two. If they were longer
	 * once, twice an iteration's bytes without such a pause say that a new one must be found.
	 */
	if (2 * pause <= ca->pause && sent <= 2 * ca->whole)
		return;
	ca->whole = sent;
	ca->pause = pause;
	ca->first = tp->bytes_acked;
}

static u32 mltcp_gain(const struct sock *sk)
{
	const struct mltcp *ca = inet_csk_ca(sk);
	u64 sent = tcp_sk(sk)->bytes_acked - ca->first;

	if (!ca->whole)
		return MLTCP_ONE;
	return MLTCP_INTERCEPT + div64_u64(MLTCP_SLOPE * min(sent, ca->whole), ca->whole);
}

static void mltcp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, max(tcp_snd_cwnd(tp) * MLTCP_ONE / mltcp_gain(sk), 1U), acked);
}

static struct tcp_congestion_ops mltcp = {
	.flags			= TCP_CONG_NON_RESTRICTED,
	.name			= "mltcp",
	.owner			= THIS_MODULE,
	.init			= mltcp_init,
	.ssthresh		= tcp_reno_ssthresh,
	.cong_avoid		= mltcp_cong_avoid,
	.cwnd_event_tx_start	= mltcp_cwnd_event_tx_start,
	.undo_cwnd		= tcp_reno_undo_cwnd,
};

static int __init mltcp_register(void)
{
	BUILD_BUG_ON(sizeof(struct mltcp) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&mltcp);
}
module_init(mltcp_register);
