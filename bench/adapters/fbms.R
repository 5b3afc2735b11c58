# Calls the R package FBMS: Rscript fbms.R DATA.csv G TASK [NUMBERS...]. Prints lines "= name numbers".
suppressMessages(library(FBMS))
argument <- commandArgs(trailingOnly = TRUE)
data <- read.csv(argument[1])
g <- as.numeric(argument[2])
task <- argument[3]
number <- as.numeric(argument[-(1:3)])

say <- function(name, values) cat("=", name, sprintf("%.17g", values), "\n")
# r = 1: the uniform prior over the models.
fit <- function(steps) {
  fbms(
    y ~ ., data = data, method = "mjmcmc", N = steps, verbose = FALSE,
    beta_prior = list(type = "g-prior", g = g), model_prior = list(r = 1)
  )
}
key <- function(m) paste(which(m$model), collapse = " ")
measured <- function(work) {
  begun <- proc.time()
  result <- work()
  took <- proc.time() - begun
  say("clock", c(took[["user.self"]] + took[["sys.self"]], took[["elapsed"]]))
  result
}

if (task == "sample") {
  set.seed(number[3])
  result <- measured(function() fit(number[1] + number[2]))
  kept <- result$mc.models[-seq_len(number[2])]
  say("inclusion", rowMeans(sapply(kept, function(m) m$model)))
  say("models", length(unique(sapply(result$models, key))))
} else {
  stop("the package has no such task")
}
