-- concurrency_changes.lua: what batch.lua needs of concurrency.lua beside its functions.
-- Go twin: internal/redis/running_model_test.go
-- KEYS: that of concurrency.lua.
-- ARGV: as for concurrency.lua; the functions read their numbers themselves.
-- Returns: of receipt and repay zeros: what runs is neither refunded nor repaid.
-- Example: the numbers of a check at byte 9 of the message -> given 9, and the next ones at 25.
kernels[#kernels + 1] = {
  decide = decide,
  take = take,

  read = function(policy, message, position)
    policy.node = string.sub(message, position, position + 7)
    return position + 8
  end,

  -- Returns where the numbers of one check stand.
  given = function(_, position)
    return position, position + 16
  end,

  receipt = function()
    return 0, 0
  end,

  -- What a group of checks shares of other algorithms changes nothing here.
  refund = function() end,
  charge = function() end,
  repay = function()
    return 0
  end,
}
