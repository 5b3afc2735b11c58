# Calls the R package BAS: Rscript bas.R DATA.csv G TASK [NUMBERS...]. Prints lines "= name numbers".
suppressMessages(library(BAS))
argument <- commandArgs(trailingOnly = TRUE)
data <- read.csv(argument[1])
g <- as.numeric(argument[2])
task <- argument[3]
number <- as.numeric(argument[-(1:3)])
p <- ncol(data) - 1

say <- function(name, values) cat("=", name, sprintf("%.17g", values), "\n")
# Without pivoting, which is faster, where the full model has full rank.
pivot <- qr(scale(data[, -1], scale = FALSE))$rank < min(p, nrow(data) - 1) || p > nrow(data) - 2
fit <- function(...) {
  bas.lm(y ~ ., data = data, prior = "g-prior", alpha = g, modelprior = uniform(), pivot = pivot, ...)
}
log_sum <- function(v) max(v) + log(sum(exp(v - max(v))))
measured <- function(work) {
  begun <- proc.time()
  result <- work()
  took <- proc.time() - begun
  say("clock", c(took[["user.self"]] + took[["sys.self"]], took[["elapsed"]]))
  result
}

# The first call of a process pays for loading; it is not measured.
invisible(bas.lm(y ~ ., data = data[, 1:3], prior = "g-prior", alpha = g, modelprior = uniform()))

if (task == "enumerate") {
  result <- measured(function() fit(method = "deterministic", n.models = 2^p))
  say("inclusion", result$probne0[-1])
  say("log_total", log_sum(result$logmarg))
  say("models", result$n.models)
} else if (task == "sample") {
  set.seed(number[3])
  room <- min(2^p, number[1] + number[2])
  result <- measured(function() {
    fit(method = "MCMC", n.models = room, MCMC.iterations = number[1], burnin.iterations = number[2])
  })
  say("inclusion", result$probne0.MCMC[-1])
  say("models", result$n.Unique)
} else if (task == "capture") {
  set.seed(number[2])
  result <- measured(function() fit(method = "BAS", n.models = number[1], initprobs = "eplogp", update = 500))
  say("log_total", log_sum(result$logmarg))
} else {
  stop("unknown task ", task)
}
