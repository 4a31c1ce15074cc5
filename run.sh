#!/usr/bin/env bash
python3 -m shared "$@"
