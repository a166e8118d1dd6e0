"""The fleet's HTTP API: ask for a recrawl, a promotion or an exclusion, explain a URL, watch the fleet.

One declaration of every operation (`contract`) validates what comes in and describes it (`openapi`).
"""
